# `./dev fuzz`: runs libFuzzer's programs, and keeps their corpora small.

# What fuzzers find, and inputs that reached something new, stay in
# fuzz-results/.
fuzz() {
  require_packages "${BUILD_PACKAGES[@]}" "${FUZZ_PACKAGES[@]}"
  local seconds=60 keep=no argument target bin status=0 targets=()
  for argument in "$@"; do
    case "$argument" in
      --seconds=*) seconds=${argument#*=} ;;
      --keep) keep=yes ;;
      *) targets+=("${argument%_fuzz}_fuzz") ;;
    esac
  done
  [ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(fuzz_targets)
  bazel_do build --config=fuzz "${targets[@]/#///tests/fuzz:}"
  bin=$(bazel_do info --config=fuzz bazel-bin 2>/dev/null)/tests/fuzz
  for target in "${targets[@]}"; do
    fuzz_one "$bin/$target" "$seconds" || status=1
    [ $keep = no ] || keep_inputs "$bin/$target"
  done
  return $status
}

fuzz_targets() {
  find tests/fuzz -name '*_fuzz.cc' -printf '%f\n' | sed 's/\.cc$//' | sort
}

# fuzz_one PROGRAM SECONDS. What leaks is found when the program ends: to look
# after each input costs more than the input where things stay from one to the
# next.
fuzz_one() {
  local target=${1##*/} status=0 count
  local log=fuzz-results/$target.log
  mkdir -p "fuzz-results/$target"
  "$1" -max_total_time="$2" -timeout=30 -detect_leaks=0 -print_final_stats=1 \
    -artifact_prefix="fuzz-results/$target-" "fuzz-results/$target" \
    "tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "== $target: ${count:-some} executions, status $status"
  [ $status = 0 ] || tail -n 60 "$log"
  return $status
}

# keep_inputs PROGRAM: makes its corpus the few inputs that reach all code which
# any has reached. Those with names of their own stay: they are of faults, or
# were made by hand to reach a state.
keep_inputs() {
  local target=${1##*/}
  local corpus=tests/fuzz/corpus/$target
  make_scratch
  "$1" -merge=1 -set_cover_merge=1 -use_counters=0 "$scratch" "$corpus" \
    "fuzz-results/$target" >/dev/null 2>&1
  find "$corpus" -regextype sed -regex '.*/[0-9a-f]\{40\}' -delete
  cp "$scratch"/* "$corpus"
  rm -rf "$scratch"
  echo "   $(find "$corpus" -type f | wc -l) inputs are kept"
}
