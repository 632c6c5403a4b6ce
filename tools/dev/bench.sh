# The commands of ./dev that measure calls.

bench() {
  require_packages "${BUILD_PACKAGES[@]}" "${BENCH_PACKAGES[@]}"
  local result status=0
  mkdir -p bench-results
  result=bench-results/$(date -u +%Y%m%dT%H%M%SZ)-$(git rev-parse --short HEAD)
  if [ "${1:-}" = --micro ] && [ $# -eq 1 ]; then
    bench_pieces "$result-micro"
  elif [ "${1:-}" = --against-grpc ]; then
    bench_against_grpc "$result-against-grpc" "${@:2}"
  elif [[ ${1:-} == --against=* ]]; then
    bench_against_revision "$result-against" "${1#--against=}" "${@:2}"
  else
    bazel_do build "${MODE[@]}" //tools/rpc_bench
    if [ $# -gt 0 ]; then
      bench_calls "$result" "$@"
    else
      bench_everything "$result"
    fi
  fi
  echo "Written:"
  ls "$result"*
  return $status
}

# bench_calls RESULT OPTION...: one run of rpc_bench, its table in RESULT.txt,
# where no earlier run's is lost if this one fails.
bench_calls() {
  local result=$1
  shift
  "$(bin_dir)/tools/rpc_bench/rpc_bench" "$@" | tee "$result.partial"
  mv "$result.partial" "$result.txt"
}

bench_everything() {
  local result=$1
  bench_calls "$result" --json="$result.json" --csv="$result.csv"
  echo
  bench_calls "$result-verbs" --verbs-count --size=64,4KiB,64KiB \
    --verbs-op=echo --duration=300ms
  echo
  bench_calls "$result-events" --events --json="$result-events.json" \
    --csv="$result-events.csv"
  echo
  bench_calls "$result-sizes" --duration=200ms --plot="$result.svg" \
    --size=64,256,1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB
  echo
  bench_calls "$result-idle" --idle --duration=3s
}

# bench_against_grpc RESULT OPTION...: tables go to RESULT.txt, runs to
# RESULT.json.
bench_against_grpc() {
  local result=$1 peers=tools/peer_bench where=()
  shift
  require_packages "${GRPC_PACKAGES[@]}"
  if [ "${1:-}" = --rxe ]; then
    shift
    require_packages "${VM_PACKAGES[@]}" "$(kernel_package)"
    where=(tests/vm/run --timeout=7200 --)
    set -- --device=rxe0 --address=10.77.0.1:0 --rows=rxe "$@"
    result+=-rxe
  else
    set -- --json="$result.json" "$@"
  fi
  bazel_do build "${MODE[@]}" "//$peers:verbena_peer" "//$peers:grpc_peer" \
    "//$peers:socket_peer"
  # An interrupt is for the driver, which then still shows what it has.
  trap : INT
  "${where[@]}" "$peers/against_grpc.py" --bin-dir="$(bin_dir)/$peers" "$@" |
    (trap "" INT; exec tee "$result.txt")
}

bench_pieces() {
  local result=$1 piece
  bazel_do build "${MODE[@]}" //tools/microbench/...
  for piece in $(bazel_do query 'tests(//tools/microbench/...)' 2>/dev/null |
    sed 's/.*://'); do
    echo "== $piece"
    "$(bin_dir)/tools/microbench/$piece" --benchmark_min_time=0.2 \
      --benchmark_out="$result-$piece.json" 2>/dev/null
  done | tee "$result.txt"
}

call_path() {
  require_packages "${BUILD_PACKAGES[@]}" "${TRACE_PACKAGES[@]}"
  bazel_do build "${MODE[@]}" --config=lines //tools/rpc_bench
  tools/dev/traced_call.py \
    "$(bin_dir --config=lines)/tools/rpc_bench/rpc_bench"
}
