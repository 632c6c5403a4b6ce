# The proof that Verbena works between two RDMA devices.

# nic_proof OPTION...: builds what both hosts need, and runs one of them; with
# --rxe both, as virtual machines.
nic_proof() {
  local proof=tools/nic_proof/nic_proof.py rxe=no option rest=()
  local status=0
  local out=nic-proof-results
  for option in "$@"; do
    case "$option" in
      --help) exec "$proof" --help ;;
      --rxe) rxe=yes ;;
      *) rest+=("$option") ;;
    esac
    [[ $option != --out=* ]] || out=${option#--out=}
  done
  # Without a device it only says what to do, and needs no programs.
  if [ "$rxe" = no ] && [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    exec "$proof" "$@"
  fi
  require_packages "${BUILD_PACKAGES[@]}" "${GRPC_PACKAGES[@]}" \
    "${NIC_PACKAGES[@]}"
  [ "$rxe" = no ] ||
    require_packages "${VM_PACKAGES[@]}" "$(kernel_package)"
  # shellcheck disable=SC2046  # These are several words.
  bazel_do build "${MODE[@]}" $("$proof" --targets)
  VERBENA_REVISION=$(git describe --always --dirty)
  export VERBENA_REVISION
  if [ "$rxe" = no ]; then
    exec "$proof" --bin-dir="$(bin_dir)" "$@"
  fi
  proof="VERBENA_REVISION=$VERBENA_REVISION $proof --bin-dir=$(bin_dir)"
  # The last of two options with one name counts.
  tests/vm/run --two-guests --timeout=7200 --save="$out" \
    --server "$proof --serve" "$proof --peer=10.77.0.1 --iterations=100 \
      ${rest[*]} --out=\$VM_SHARE/saved" || status=$?
  [ ! -e "$out/report.md" ] || echo "Saved: $out/report.md $out/report.json"
  return $status
}
