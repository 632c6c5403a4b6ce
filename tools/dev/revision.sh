# How `bench --against=REV` and `compat --with=REV` get their programs. All
# revisions share one worktree and one output folder, so that the next one
# compiles only what differs. The programs are kept by revision.
REVISIONS=bench-revisions

# Those that rows run, as targets and as files.
BENCH_PROGRAMS=(tools/rpc_bench:rpc_bench tools/peer_bench:verbena_peer)
COMPAT_PROGRAMS=(tests/integration:e2e_server
  tests/integration:rpc_end_to_end_test tests/integration:rpc_streaming_test)

# keep_programs BIN_DIR FOLDER PROGRAM...: copies those that were built.
keep_programs() {
  local from=$1 to=$2 program
  shift 2
  mkdir -p "$to"
  for program in "$@"; do
    [ ! -e "$from/${program/://}" ] || cp -f "$from/${program/://}" "$to/"
  done
}

# commit_of REV: its full name, or an error.
commit_of() {
  git rev-parse --verify --quiet "$1^{commit}" || {
    complain "Git knows no revision $1."
    exit 2
  }
}

# build_revision COMMIT FOLDER PROGRAM...: its programs into FOLDER, unless they
# are there. Those that it does not have yet are left out.
build_revision() {
  local commit=$1 tree=$REVISIONS/tree kept=$2 program targets=()
  local bazel=(bazel)
  shift 2
  [ ! -d "$kept" ] || return 0
  mkdir -p "$REVISIONS"
  if [ -e "$tree/.git" ]; then
    git -C "$tree" checkout --quiet --force --detach "$commit"
  else
    # By force: the folder may have been removed by hand.
    git worktree add --quiet --force --detach "$tree" "$commit"
  fi
  for program in "$@"; do
    ! grep -qs "\"${program#*:}\"" "$tree/${program%:*}/BUILD.bazel" ||
      targets+=("//$program")
  done
  # shellcheck disable=SC2206  # It holds several words.
  bazel+=(${BAZEL_STARTUP_FLAGS:-} --output_base="$PWD/$REVISIONS/output")
  # shellcheck disable=SC2086  # Likewise.
  (
    cd "$tree" || exit
    "${bazel[@]}" build "${MODE[@]}" ${BAZEL_FLAGS:-} "${targets[@]}"
  )
  # Under its name only when all of it is there.
  rm -rf "$kept.partial"
  keep_programs "$(cd "$tree" && "${bazel[@]}" info "${MODE[@]}" bazel-bin \
    2>/dev/null)" "$kept.partial" "$@"
  # Its server would take memory, and time of the processors now and then.
  (cd "$tree" && "${bazel[@]}" shutdown)
  mv "$kept.partial" "$kept"
}

# bench_against_revision RESULT REV OPTION...: tables go to RESULT-COMMIT.txt,
# runs to RESULT-COMMIT.json. Sets `status` of bench(), which tells the files.
bench_against_revision() {
  local result=$1 revision=$2 commit
  local compare=tools/bench_against/against_revision.py
  shift 2
  case " $* " in
    *" --help "* | *" --list "*) "$compare" "$@"; exit ;;
  esac
  commit=$(commit_of "$revision")
  build_revision "$commit" "$REVISIONS/$commit" "${BENCH_PROGRAMS[@]}"
  bazel_do build "${MODE[@]}" "${BENCH_PROGRAMS[@]/#///}"
  # A copy, so that the tree may be built meanwhile.
  keep_programs "$(bin_dir)" "$REVISIONS/working-tree" "${BENCH_PROGRAMS[@]}"
  result+=-$(git rev-parse --short "$commit")
  # An interrupt is for the driver, which then still shows what it has.
  trap : INT
  "$compare" --new="$REVISIONS/working-tree" --old="$REVISIONS/$commit" \
    --new-name="$(git describe --always --dirty)" --old-name="$revision" \
    --json="$result.json" "$@" | (trap "" INT; exec tee "$result.txt") ||
    status=$?
}

# calls_between SERVER CLIENT: the folders of their programs. Tests that need a
# server of their own have that of their side.
calls_between() {
  local program status=0
  for program in rpc_end_to_end_test rpc_streaming_test; do
    echo "== $program of $2, called server of $1"
    tools/dev/with_server.py --timeout=600 -- "$1/e2e_server" -- \
      env 'VERBENA_TEST_SERVER={address}' "$2/$program" --gtest_brief=1 ||
      status=1
  done
  return "$status"
}

# compat --with=REV: clients and servers of the working tree and of another
# revision call each other, by all forms of calls.
compat() {
  local revision=${1#--with=} commit old new=$REVISIONS/working-tree-compat
  local status=0
  [ $# -eq 1 ] && [ "$revision" != "$1" ] || {
    complain "compat takes one option, --with=REV."
    exit 2
  }
  require_packages "${BUILD_PACKAGES[@]}"
  commit=$(commit_of "$revision")
  old=$REVISIONS/$commit-compat
  build_revision "$commit" "$old" "${COMPAT_PROGRAMS[@]}"
  bazel_do build "${MODE[@]}" "${COMPAT_PROGRAMS[@]/#///}"
  rm -rf "$new"
  keep_programs "$(bin_dir)" "$new" "${COMPAT_PROGRAMS[@]}"
  calls_between "$old" "$new" || status=1
  calls_between "$new" "$old" || status=1
  [ "$status" -eq 0 ] && echo "Both sides of $revision and of this tree" \
    "understand each other."
  return "$status"
}
