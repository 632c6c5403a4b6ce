"""What may not be written, and what to write instead."""

import dataclasses
import re

from source_tree import Problem, functions


def anywhere(source):
    return source.is_cpp()


def in_libraries(source):
    """Code that others link: it talks through its results, not a terminal."""
    return (source.is_cpp() and not source.is_test()
            and source.under("transport", "rpc", "proto")
            and not source.is_program())


def outside_main_programs(source):
    return source.is_cpp() and not source.is_test() and not (
        source.under("tools", "examples"))


def on_the_data_path(source):
    return source.name.endswith("_datapath.cc")


@dataclasses.dataclass(frozen=True)
class Ban:
    """A pattern in code, where it is banned, and its replacement."""
    pattern: str
    where: object
    instead: str
    allowed: tuple = ()

    def problems(self, source):
        if not self.where(source) or source.path in self.allowed:
            return
        expression = re.compile(self.pattern)
        for number, line in enumerate(source.code, start=1):
            found = expression.search(line)
            if found:
                yield Problem(source.path, number, "%s: %s" %
                              (found.group(0).strip(), self.instead))


CHECK = "transport/base/check.cc"

# The inline verbs: they call through ibv_context::ops, which every provider
# fills, or through verbs_context, where they refuse what they do not find.
_INLINE_VERBS = (
    "post_send|post_recv|post_srq_recv|poll_cq|req_notify_cq|"
    "query_device_ex|query_rt_values_ex|modify_cq|modify_qp_rate_limit|"
    "(create|modify|destroy)_(cq_ex|qp_ex|srq_ex|wq|flow|counters)|"
    "(open|close)_xrcd|open_qp|start_poll|next_poll|end_poll|wc_read_\\w+|"
    "cq_ex_to_cq|wr_\\w+|alloc_(td|parent_domain|null_mr|dm|mw)|advise_mr|"
    "dealloc_(td|mw)|free_dm|reg_dm_mr|memcpy_(to|from)_dm|bind_mw|inc_rkey")
# rdma_ names of our own exist (an accessor is lower_case), so these are listed.
_CM_CALLS = (
    "accept|ack_cm_event|bind_addr|connect|create_\\w+|destroy_\\w+|"
    "disconnect|establish|event_str|free_devices|freeaddrinfo|get_\\w+|"
    "getaddrinfo|init_qp_attr|join_multicast\\w*|leave_multicast|listen|"
    "migrate_id|notify|reject\\w*|resolve_\\w+|set_option|set_local_ece|"
    "reg_\\w+|post_\\w+")

# It answers for those libraries, so it defines what others may not call.
_PRELOAD = tuple("transport/soft/preload/" + each for each in (
    "export_cm.cc", "export_cm_queries.cc", "export_datagrams.cc",
    "export_devices.cc",
    "export_objects.cc", "export_queue_pairs.cc", "preload_calls_test.cc",
    "preload_test.cc"))

EVERYWHERE = [
    Ban(r"\bsleep_(for|until)\b|(?<![\w.>])(u|nano)?sleep\s*\((?!\s*\))"
        r"|absl::SleepFor", anywhere,
        "wait for a condition with a bound, or drive a manual clock"),
    Ban(r"(?<![\w.>])(std::)?s?rand\s*\(", anywhere,
        "use absl::BitGen, or in tests a std::mt19937 with a printed seed"),
    Ban(r"absl::(Mutex|CondVar|Notification|BlockingCounter)", anywhere,
        "use Mutex and CondVar of transport/base/mutex.h: the system's abseil "
        "is not built for ThreadSanitizer, which would report false races"),
    # Only root can be another user, which a few tests among many need.
    Ban(r"GTEST_SKIP|DISABLED_", anywhere,
        "run the test; choose in the manifest or in BUILD where",
        allowed=("transport/soft/address/cm_address_test.cc",
                 "transport/soft/cm/cm_hostile_test.cc",
                 "transport/soft/manual/manual_process_test.cc")),
    Ban(r"FRIEND_TEST|friend class \w*Test\b", anywhere,
        "test through the public interface"),
    Ban(r"\busing namespace\b", anywhere, "name what you use"),
    Ban(r"__builtin_ia32_|\b__rdtsc\b|\b_mm_pause\b", anywhere,
        "use CycleNow() or RelaxProcessor() of transport/base/cycle_counter.h",
        allowed=("transport/base/cycle_counter.h",)),
    Ban(r"\[\[(un)?likely\]\]", anywhere,
        "use ABSL_PREDICT_TRUE or ABSL_PREDICT_FALSE, as all other code does"),
    # Handlers and interceptors are the user's code, who may write as he likes.
    # And where a message decides how much is allocated, std::bad_alloc is a
    # status.
    Ban(r"\bthrow\b|\bcatch\s*\(", in_libraries,
        "return an absl::Status, or CHECK what only a bug can break",
        allowed=("rpc/internal/codec/protobuf_codec.cc",
                 "rpc/internal/server/handler_guard.cc",
                 "rpc/internal/server/interception.cc")),
    Ban(r"(?<![\w.>])(std::)?(printf|puts|putchar)\s*\(|std::cout",
        in_libraries,
        "standard output is the program's: return an absl::Status or a value"),
    Ban(r"(?<![\w.>])(std::)?(exit|abort|_exit)\s*\(", in_libraries,
        "return an absl::Status, or CHECK what only a bug can break",
        allowed=(CHECK,)),
    Ban(r"absl::(Now|GetCurrentTimeNanos)\(|\bsystem_clock\b", in_libraries,
        "that clock is set now and then: use Now() of transport/base/clock.h",
        allowed=("transport/base/clock.h",)),
    Ban(r"\bABSL_FLAG\b", outside_main_programs,
        "flags belong to programs: pass an options struct"),
    # With no argument it is a value: a structure that starts out as zeros.
    Ban(r"(?<![\w.>])ibv_(?!(%s)\b)\w+\s*\((?!\s*\))" % _INLINE_VERBS,
        anywhere,
        "only transport/verbs/system_provider.cc names functions of "
        "libibverbs; call the entry of that name in VerbsOps",
        allowed=("transport/verbs/system_provider.cc",) + _PRELOAD),
    Ban(r"(?<![\w.>])rdma_(%s)\s*\(" % _CM_CALLS, anywhere,
        "only transport/verbs/system_provider.cc names functions of "
        "librdmacm; call the entry of that name in CmOps",
        allowed=("transport/verbs/system_provider.cc",) + _PRELOAD),
]

_DATA_PATH = "the data path does not %s: move it into a ...Slow() function"

# Placement new takes no memory; the lock that a device's contract asks for is
# one that spins.
ON_THE_DATA_PATH = [
    Ban(r"\bnew\b(?!\s*\()|\b(m|c|re)alloc\s*\(|\bstd::make_(unique|shared)\b",
        on_the_data_path, _DATA_PATH % "allocate"),
    Ban(r"\bstd::(mutex|shared_mutex|condition_variable)\b|"
        r"\b(Mutex|CondVar|MutexLock)\b|"
        r"\bstd::(lock_guard|unique_lock|scoped_lock)\b(?!<SpinLock>)",
        on_the_data_path, _DATA_PATH % "lock"),
    Ban(r"\bf?printf\s*\(|std::(cerr|clog|cout)|\bLOG\s*\(", on_the_data_path,
        _DATA_PATH % "log"),
    Ban(r"\bstd::(function|string|to_string)\b|"
        r"\babsl::(StrCat|StrAppend|StrFormat)\b", on_the_data_path,
        _DATA_PATH % "build strings or type-erased functions"),
]


def check_bans(tree):
    """Banned calls."""
    for source in tree:
        for ban in EVERYWHERE:
            yield from ban.problems(source)


def check_data_path(tree):
    """Files named *_datapath.cc allocate nothing, take no lock, do not log."""
    for source in tree:
        if not on_the_data_path(source):
            continue
        slow = [each for each in functions(source)
                if each.name.endswith("Slow")]
        for ban in ON_THE_DATA_PATH:
            for problem in ban.problems(source):
                if not any(each.first_line <= problem.line <= each.last_line
                           for each in slow):
                    yield problem


_MACRO = re.compile(r"^\s*#\s*define\s+(\w+)")

# The files whose subject is a macro.
MACRO_FILES = ("transport/base/status_macros.h", "transport/base/check.h")


def check_macros(tree):
    """No macros but the ones for status and checks."""
    for source in tree.cpp():
        if source.path in MACRO_FILES:
            continue
        for number, line in enumerate(source.code, start=1):
            found = _MACRO.match(line)
            if found and not found.group(1).endswith("_H_"):
                yield Problem(source.path, number, "#define %s: use a constant,"
                              " a function or a template" % found.group(1))


# In two halves, so that this file does not contain what it looks for.
_LEFTOVER = re.compile("FIX" + r"ME|\bX" + r"XX\b|TO" + r"DO(?!\((\w+)\): \w)")


def check_leftovers(tree):
    """What is left for later says of what kind it is."""
    for source in tree:
        for number, line in enumerate(source.lines, start=1):
            found = _LEFTOVER.search(line)
            if found and not source.name == "LICENSE":
                yield Problem(source.path, number,
                              "%s: do it, or say of what kind it is, as in "
                              "TO" "DO(performance): ..." % found.group(0))


# The project speaks of itself only, not of where and how it was written.
_FOREIGN = re.compile("|".join([
    r"(?:^|[\s\"'`(=:])/wo" + r"rk(?=/|[\s\"'`)]|$)", r"\.\./sha" + "red",
    r"\bDESI" + r"GN\.md", r"\bSTY" + r"LE\.md"]))


def check_foreign_words(tree):
    """No path or document of some machine outside of this repository."""
    for source in tree:
        for number, line in enumerate(source.lines, start=1):
            found = _FOREIGN.search(line)
            if found:
                yield Problem(source.path, number,
                              "%s is not part of this project: say it in its "
                              "own documents" % found.group(0).strip())


CHECKS = [check_bans, check_data_path, check_macros, check_leftovers,
          check_foreign_words]
