# How ./dev calls Bazel. For a Bazel of your own, set:
#   BAZEL_STARTUP_FLAGS   e.g. --output_base=/tmp/another
#   BAZEL_FLAGS           e.g. --jobs=1, for all commands but query

# One mode for everything but sanitizers, so that nothing is compiled twice.
MODE=(--config=opt)

bazel_do() {
  local command=$1 flags=${BAZEL_FLAGS:-}
  shift
  [ "$command" != query ] || flags=
  # shellcheck disable=SC2086  # Both hold several words.
  bazel ${BAZEL_STARTUP_FLAGS:-} "$command" $flags "$@"
}

# bin_dir [OPTION...]: where Bazel puts programs in this mode, as a path that
# lasts.
bin_dir() {
  bazel_do info "${MODE[@]}" "$@" bazel-bin 2>/dev/null
}
