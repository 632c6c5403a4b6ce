"""Shapes and banned words in this repository, and that each check can fail."""

import unittest

import bans
import shape
from source_tree import SourceFile, functions, strip_cpp
from style_case import StyleCase


class Repository(StyleCase):

    def test_bans(self):
        self.assert_clean(bans.check_bans)

    def test_data_path(self):
        self.assert_clean(bans.check_data_path)

    def test_macros(self):
        self.assert_clean(bans.check_macros)

    def test_leftovers(self):
        self.assert_clean(bans.check_leftovers)

    def test_foreign_words(self):
        self.assert_clean(bans.check_foreign_words)

    def test_file_length(self):
        self.assert_clean(shape.check_file_length)

    def test_function_length(self):
        self.assert_clean(shape.check_function_length)

    def test_columns(self):
        self.assert_clean(shape.check_columns)

    def test_header_guards(self):
        self.assert_clean(shape.check_header_guards)

    def test_tests_beside(self):
        self.assert_clean(shape.check_tests_beside)

    def test_build_files(self):
        self.assert_clean(shape.check_build_files)

    def test_build_lines(self):
        self.assert_clean(shape.check_build_lines)

    def test_version(self):
        self.assert_clean(shape.check_version)

    def test_preprocessor_in_functions(self):
        self.assert_clean(shape.check_preprocessor_in_functions)


class Bans(StyleCase):

    def refuses(self, code, message, path="rpc/a.cc"):
        self.assert_finds(bans.check_bans, path, code + "\n", message)

    def accepts(self, code, path="rpc/a.cc"):
        self.assert_accepts(bans.check_bans, path, code + "\n")

    def test_sleep(self):
        for code in ("std::this_thread::sleep_for(1ms);", "usleep(10);",
                     "sleep(1);", "absl::SleepFor(absl::Seconds(1));"):
            self.refuses(code, "wait for a condition", "rpc/a_test.cc")
        self.accepts("poller.sleeping(); asleep(x); link.sleep(); int sleep();")

    def test_rand(self):
        self.refuses("int x = rand();", "absl::BitGen")
        self.refuses("std::srand(1);", "absl::BitGen")
        self.accepts("operand(1); generator.rand();")

    def test_mutex_of_abseil_says_why(self):
        self.refuses("absl::Mutex mutex_;", "ThreadSanitizer")

    def test_skipped_tests(self):
        self.refuses("GTEST_SKIP();", "run the test", "rpc/a_test.cc")
        self.refuses("TEST(A, DISABLED_B) {}", "run the test", "rpc/a_test.cc")

    def test_white_box_tests(self):
        self.refuses("friend class ChannelTest;", "public interface")

    def test_using_namespace(self):
        self.refuses("using namespace std;", "name what you use")

    def test_one_name_for_the_processor(self):
        self.refuses("x = __builtin_ia32_rdtsc();", "CycleNow()")
        self.refuses("_mm_pause();", "RelaxProcessor()")
        self.refuses("if (x) [[unlikely]] {", "ABSL_PREDICT_FALSE")

    def test_exceptions(self):
        self.refuses("throw 1;", "return an absl::Status")
        self.refuses("} catch (...) {", "return an absl::Status")

    def test_standard_output_of_a_library(self):
        self.refuses('printf("x");', "standard output")
        self.refuses("std::cout << 1;", "standard output")
        self.accepts('std::printf("x");', "tools/rpc_bench/report.cc")
        self.accepts("int main() {\nstd::puts(text);\n}")
        self.accepts("std::fprintf(stderr, message);")
        self.accepts("printer.printf(x); snprintf(buffer);")

    def test_exit_in_a_library(self):
        self.refuses("std::exit(1);", "return an absl::Status")
        self.refuses("abort();", "return an absl::Status")
        self.accepts("std::abort();", "transport/base/check.cc")
        self.accepts("call.abort();")

    def test_flags_in_a_library(self):
        self.refuses("ABSL_FLAG(int, x, 1, y);", "options struct")
        self.accepts("ABSL_FLAG(int, x, 1, y);", "tools/rpc_bench/main.cc")

    def test_exported_verbs(self):
        self.refuses("ibv_reg_mr(pd, p, n, 0);", "VerbsOps")
        self.refuses("rdma_connect(id, &param);", "CmOps")
        self.accepts("ibv_poll_cq(cq, 1, &wc); ibv_post_send(qp, a, b);")
        self.accepts("Queue() : ibv_cq(), size_(0) {}")
        self.accepts("options.rdma_read_depth(); ops->rdma_connect(x);")
        self.accepts("ibv_reg_mr(pd, p, n, 0);",
                     "transport/verbs/system_provider.cc")

    def test_comments_and_strings_are_not_calls(self):
        self.accepts('// usleep(1)\nauto x = "rand()"; /* throw\nthrow */')


class DataPath(StyleCase):

    def test_refuses_what_is_slow(self):
        for code, message in (("auto* x = new int;", "allocate"),
                              ("std::make_unique<int>();", "allocate"),
                              ("std::lock_guard lock(mutex_);", "lock"),
                              ("base::MutexLock lock(mutex_);", "lock"),
                              ("std::cerr << 1;", "log"),
                              ("std::string name;", "build strings"),
                              ("absl::StrCat(1);", "build strings")):
            self.assert_finds(bans.check_data_path,
                              "transport/session/a_datapath.cc", code,
                              "does not " + message)
            self.assert_accepts(bans.check_data_path,
                                "transport/session/a.cc", code)

    def test_accepts_what_costs_nothing(self):
        self.assert_accepts(bans.check_data_path, "rpc/a_datapath.cc",
                            "std::string_view v; int newest; renew();\n"
                            "new (memory) Call;\n"
                            "ScopedLock<SpinLock> held(lock_);\n"
                            "std::lock_guard<SpinLock> lock(lock_);\n")

    def test_what_is_slow_goes_into_a_function_that_says_so(self):
        self.assert_accepts(bans.check_data_path, "rpc/a_datapath.cc",
                            "void Call::FailSlow() { absl::StrCat(1); }\n")
        self.assert_finds(bans.check_data_path, "rpc/a_datapath.cc",
                          "void Call::Fail() { absl::StrCat(1); }\n",
                          "...Slow()")


class Words(StyleCase):

    def test_macros(self):
        self.assert_finds(bans.check_macros, "rpc/a.h", "#define FOO 1\n",
                          "#define FOO: use a constant")
        self.assert_accepts(bans.check_macros, "rpc/a.h", "#define RPC_A_H_\n")
        self.assert_accepts(bans.check_macros, "transport/base/check.h",
                            "#define CHECK(x) x\n")

    def test_leftovers(self):
        for text in ("// FIX" "ME later", "# TO" "DO: this", "TO" "DO(me)"):
            self.assert_finds(bans.check_leftovers, "tools/a.py", text,
                              "do it, or say")
        self.assert_accepts(bans.check_leftovers, "rpc/a.cc",
                            "// TO" "DO(performance): one copy less.")

    def test_foreign_words(self):
        for text in ("see /wo" "rk/main", "see DESI" "GN.md", "../sha" "red/x",
                     "(STY" "LE.md)", "cd '/wo" "rk'"):
            self.assert_finds(bans.check_foreign_words, "README.md", text,
                              "not part of this project")
        self.assert_accepts(bans.check_foreign_words, "rpc/a.cc",
                            '#include "transport/verbs/work_request.h"')


class Sizes(StyleCase):

    def test_file_length(self):
        limit = shape.FILE_LINES_MAX
        self.assert_accepts(shape.check_file_length, "a.cc", "\n" * limit)
        self.assert_finds(shape.check_file_length, "a.cc", "\n" * (limit + 1),
                          "split it by subject")

    def test_function_length(self):
        def function(lines):
            return "int F(int a) {\n" + "  ++a;\n" * (lines - 2) + "}\n"
        limit = shape.FUNCTION_LINES_MAX
        self.assert_accepts(shape.check_function_length, "a.cc",
                            function(limit) + function(limit))
        self.assert_finds(shape.check_function_length, "a.cc",
                          "namespace a {\n" + function(limit + 1) + "}\n",
                          "F has 71 lines")

    def test_columns(self):
        self.assert_finds(shape.check_columns, "a.cc", "x" * 81, "81 columns")
        self.assert_accepts(shape.check_columns, "a.cc", "x" * 80 + "\n" +
                            "// https://" + "x" * 80 + "\n#include \"" +
                            "x" * 80 + '"')
        self.assert_finds(shape.check_columns, "a.md", "x" * 131, "at most 130")


class Shapes(StyleCase):

    def test_header_guard_is_the_path(self):
        check = shape.check_header_guards
        good = ("// About.\n\n#ifndef VERBENA_RPC_A_H_\n"
                "#define VERBENA_RPC_A_H_\n#endif\n")
        self.assert_accepts(check, "rpc/a.h", good)
        self.assert_finds(check, "rpc/b.h", good, "VERBENA_RPC_B_H_")
        self.assert_finds(check, "rpc/b.h", "#pragma once\n", "first code")

    def test_each_source_has_a_test_beside_it(self):
        check = shape.check_tests_beside
        self.assert_finds(check, "rpc/a.cc", "", "no a_test.cc beside it")
        self.assert_accepts(check, "rpc/a.cc", "", {"rpc/a_test.cc": ""})
        self.assert_accepts(check, "rpc/a_datapath.cc", "",
                            {"rpc/a_test.cc": ""})
        self.assert_accepts(check, "tools/a/tool.cc", "int main() {}\n")

    def test_a_source_may_name_the_test_that_runs_it(self):
        elsewhere = {"rpc/a.cc": "tests/b_test.cc"}
        def check(tree):
            return shape.check_tests_beside(tree, elsewhere)
        self.assert_accepts(check, "rpc/a.cc", "", {"tests/b_test.cc": ""})
        self.assert_finds(check, "rpc/a.cc", "", "no a_test.cc beside it")
        self.assert_finds(check, "rpc/a.cc", "", "by now: remove it",
                          {"rpc/a_test.cc": ""})
        self.assert_finds(check, "tools/style/tested_elsewhere.py", "",
                          "it is gone")

    def test_build_files_do_not_glob(self):
        self.assert_finds(shape.check_build_files, "rpc/BUILD.bazel",
                          '# It.\nsrcs = glob(["*.cc"])', "name each file")
        self.assert_finds(shape.check_build_files, "rpc/BUILD.bazel",
                          "cc_library()", "begin with what this folder is")

    def test_build_files_name_every_source(self):
        build = {"rpc/BUILD.bazel": '# It.\nsrcs = ["internal/a.cc"]'}
        self.assert_accepts(shape.check_build_files, "rpc/internal/a.cc", "",
                            build)
        self.assert_finds(shape.check_build_files, "rpc/internal/b.cc", "",
                          "does not name it", build)

    def test_build_files_may_name_a_test_without_its_ending(self):
        build = {"rpc/BUILD.bazel":
                 '# It.\nunit_tests(names = ["a_test", "b"])'}
        self.assert_accepts(shape.check_build_files, "rpc/a_test.cc", "",
                            build)
        self.assert_finds(shape.check_build_files, "rpc/b.cc", "",
                          "does not name it", build)

    def test_build_files_are_short_together(self):
        half = "\n" * (shape.BUILD_LINES_MAX // 2)
        check = shape.check_build_lines
        self.assert_accepts(check, "a/BUILD.bazel", half,
                            {"b/BUILD.bazel": half})
        self.assert_finds(check, "a/BUILD.bazel", half, 
                          "%d lines" % (shape.BUILD_LINES_MAX + 1),
                          {"b/BUILD.bazel": half + "\n"})

    def test_the_version_is_that_of_the_newest_changes(self):
        check = shape.check_version
        header = 'constexpr string_view kVersion = "1.2.3";'
        changes = "## [Unreleased]\n\n## [1.2.3] - 2026\n\n## [1.2.2]\n"
        self.assert_accepts(check, "rpc/version.h", header,
                            {"CHANGELOG.md": changes})
        self.assert_finds(check, "rpc/version.h", header, "kVersion must be",
                          {"CHANGELOG.md": "## [1.2.4]\n" + changes})
        self.assert_finds(check, "rpc/version.h", 'kVersion = "1.2";',
                          "MAJOR.MINOR.PATCH", {"CHANGELOG.md": "## [1.2]\n"})

    def test_preprocessor_stays_out_of_functions(self):
        check = shape.check_preprocessor_in_functions
        self.assert_finds(check, "a.cc", "void F() {\n#ifdef X\n#endif\n}\n",
                          "#if inside a function")
        self.assert_accepts(check, "a.cc", "#ifdef X\n#endif\nvoid F() {}\n")


class Reading(unittest.TestCase):
    """How the checks read C++."""

    def names(self, code):
        return [each.name for each in functions(SourceFile("a.cc", code))]

    def test_functions_of_all_kinds(self):
        self.assertEqual(self.names("""
            namespace a {
            class B final : public C {
             public:
              explicit B(int x) : x_{x}, y_({1, 2}) { Do(); }
              int Get() const { if (x_) { return 1; } return 0; }
             private:
              int x_ = {1};
              std::vector<int> v_{1, 2};
            };
            struct alignas(64) D { void E() {} };
            template <class T> T F(T t) { return [&] { return t; }(); }
            constexpr int kTable[] = {Make(1), Make(2)};
            enum class G { kOne, kTwo };
            TEST(Suite, Sentence) { EXPECT_TRUE(true); }
            }
        """), ["B", "Get", "E", "F", "TEST"])

    def test_a_struct_in_an_argument_does_not_hide_a_function(self):
        self.assertEqual(self.names("int F(struct ibv_qp* qp) { return 0; }"),
                         ["F"])

    def test_length_counts_the_lines_of_the_body(self):
        body, = functions(SourceFile("a.cc", "int F(\n  int a) {\n  a;\n}\n"))
        self.assertEqual((body.first_line, body.length()), (2, 3))

    def test_stripping_keeps_lines_and_includes(self):
        self.assertEqual(
            strip_cpp('#include "a.h"  // x\nf("{", \'}\'); /* {\n */ 1\'000'),
            '#include "a.h"   \nf("", \'\');  \n 1\'000')
        self.assertEqual(strip_cpp('R"(a\n"{)" x'), '"\n" x')


if __name__ == "__main__":
    unittest.main()
