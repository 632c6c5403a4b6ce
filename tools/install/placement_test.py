"""Installing and uninstalling touches what is ours, and nothing else."""

import os
import tempfile
import unittest

import placement


class Placement(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.stage = os.path.join(folder.name, "stage")
        self.root = os.path.join(folder.name, "usr")
        self.write(self.stage, "lib/libx.so.0", "1")
        self.write(self.stage, "include/x/x.h", "1")
        os.symlink("libx.so.0", os.path.join(self.stage, "lib/libx.so"))

    def write(self, folder, path, text):
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as stream:
            stream.write(text)

    def found(self):
        return sorted(os.path.relpath(os.path.join(where, name), self.root)
                      for where, _, names in os.walk(self.root)
                      for name in names)

    def test_what_was_installed_goes_and_leaves_nothing(self):
        placement.install(self.stage, self.root)
        self.assertEqual(self.found(), [
            "include/x/x.h", "lib/libx.so", "lib/libx.so.0",
            placement.MANIFEST])
        self.assertTrue(os.path.islink(os.path.join(self.root, "lib/libx.so")))
        placement.uninstall(self.root)
        self.assertEqual(os.listdir(self.root), [])

    def test_what_others_have_there_stays(self):
        self.write(self.root, "lib/other.so", "")
        placement.install(self.stage, self.root)
        self.write(self.root, "include/x/theirs.h", "")
        placement.uninstall(self.root)
        self.assertEqual(self.found(), ["include/x/theirs.h", "lib/other.so"])

    def test_a_folder_that_was_there_stays_though_it_is_empty(self):
        os.makedirs(os.path.join(self.root, "lib"))
        placement.install(self.stage, self.root)
        placement.uninstall(self.root)
        self.assertEqual(os.listdir(self.root), ["lib"])

    def test_a_file_of_others_is_not_overwritten(self):
        self.write(self.root, "lib/libx.so.0", "theirs")
        with self.assertRaisesRegex(placement.Refused, "not installed by"):
            placement.install(self.stage, self.root)
        self.assertEqual(self.found(), ["lib/libx.so.0"])

    def test_installing_again_takes_away_what_is_no_longer_installed(self):
        placement.install(self.stage, self.root)
        os.remove(os.path.join(self.stage, "include/x/x.h"))
        placement.install(self.stage, self.root)
        self.assertEqual(self.found(), ["lib/libx.so", "lib/libx.so.0",
                                        placement.MANIFEST])
        placement.uninstall(self.root)
        self.assertEqual(os.listdir(self.root), [])

    def test_uninstalling_what_is_not_there_is_refused(self):
        with self.assertRaisesRegex(placement.Refused, "not installed there"):
            placement.uninstall(self.root)

    def test_a_manifest_that_reaches_out_of_the_prefix_is_refused(self):
        self.write(self.root, placement.MANIFEST, "../stage/lib/libx.so.0\n")
        with self.assertRaisesRegex(placement.Refused, "damaged"):
            placement.uninstall(self.root)
        self.assertTrue(os.path.exists(
            os.path.join(self.stage, "lib/libx.so.0")))


if __name__ == "__main__":
    unittest.main()
