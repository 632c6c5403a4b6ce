# How `bench --against=REV` gets its programs. All revisions share one worktree
# and one output folder, so that the next one compiles only what differs. The
# programs are kept by revision.
REVISIONS=bench-revisions

# Those that rows run, as targets and as files.
BENCH_PROGRAMS=(tools/rpc_bench:rpc_bench tools/peer_bench:verbena_peer)

# keep_programs BIN_DIR FOLDER: copies those that were built.
keep_programs() {
  local program
  mkdir -p "$2"
  for program in "${BENCH_PROGRAMS[@]}"; do
    [ ! -e "$1/${program/://}" ] || cp -f "$1/${program/://}" "$2/"
  done
}

# build_revision COMMIT: its programs into $REVISIONS/COMMIT, unless they are
# there. Those that it does not have yet are left out.
build_revision() {
  local commit=$1 tree=$REVISIONS/tree kept=$REVISIONS/$1 program targets=()
  local bazel=(bazel)
  [ ! -d "$kept" ] || return 0
  mkdir -p "$REVISIONS"
  if [ -e "$tree/.git" ]; then
    git -C "$tree" checkout --quiet --force --detach "$commit"
  else
    # By force: the folder may have been removed by hand.
    git worktree add --quiet --force --detach "$tree" "$commit"
  fi
  for program in "${BENCH_PROGRAMS[@]}"; do
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
    2>/dev/null)" "$kept.partial"
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
  commit=$(git rev-parse --verify --quiet "$revision^{commit}") || {
    complain "Git knows no revision $revision."
    exit 2
  }
  build_revision "$commit"
  bazel_do build "${MODE[@]}" "${BENCH_PROGRAMS[@]/#///}"
  # A copy, so that the tree may be built meanwhile.
  keep_programs "$(bin_dir)" "$REVISIONS/working-tree"
  result+=-$(git rev-parse --short "$commit")
  # An interrupt is for the driver, which then still shows what it has.
  trap : INT
  "$compare" --new="$REVISIONS/working-tree" --old="$REVISIONS/$commit" \
    --new-name="$(git describe --always --dirty)" --old-name="$revision" \
    --json="$result.json" "$@" | (trap "" INT; exec tee "$result.txt") ||
    status=$?
}
