"""Locks in this repository, and that each check can fail."""

import unittest

import locks
from style_case import StyleCase


class Repository(StyleCase):

    def assert_clean(self, check):
        found = list(check(self.repository()))
        self.assertEqual(found, [], "\n".join(map(str, found)))

    def test_no_standard_locks(self):
        self.assert_clean(locks.check_standard_locks)

    def test_annotations(self):
        self.assert_clean(locks.check_annotations)


class Locks(StyleCase):

    def test_standard_locks(self):
        check = locks.check_standard_locks
        for code in ("std::mutex m;", "std::condition_variable c;",
                     "std::recursive_mutex m;",
                     "const std::lock_guard<SpinLock> lock(m);"):
            self.assert_finds(check, "rpc/a.cc", code, "use Mutex, ScopedLock")
            self.assert_accepts(check, "transport/base/mutex.h", code)
        self.assert_accepts(check, "rpc/a.cc", "base::MutexLock lock(mutex_);")

    def test_annotations(self):
        check = locks.check_annotations
        for lock in ("mutable base::Mutex lock_;", "base::SpinLock lock_;"):
            self.assert_finds(check, "rpc/a.h", lock + "\nint x_ = 0;\n",
                              "lock_ protects nothing")
            self.assert_accepts(check, "rpc/a.h", lock +
                                "\nint x_ ABSL_GUARDED_BY(lock_) = 0;\n")
            self.assert_accepts(
                check, "rpc/a.h", lock +
                "\nvoid F() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);\n")


if __name__ == "__main__":
    unittest.main()
