# What each command of ./dev needs installed, and how it gets there.

BUILD_PACKAGES=(
  bazel-bootstrap bazel-platforms bazel-rules-cc bazel-rules-java
  bazel-rules-proto bazel-skylib
  g++ git pkg-config python3 strace
  libibverbs-dev librdmacm-dev ibverbs-providers
  protobuf-compiler libprotobuf-dev libprotoc-dev
  libabsl-dev libgtest-dev libgmock-dev libbenchmark-dev libisal-dev
  libsodium-dev libssl-dev libc-ares-dev libasio-dev
)
# zstd unpacks Ubuntu's kernel modules; xz and gz need no package.
VM_PACKAGES=(
  qemu-system-x86 busybox-static kmod zstd
  iproute2 ibverbs-utils rdmacm-utils perftest qperf fio libfabric-bin
  ucx-utils openmpi-bin python3-mpi4py
)
# What builds the programs that use an installed library.
CONSUMER_PACKAGES=(cmake make dpkg-dev)
# The DNS server of the resolvers' tests.
DNS_PACKAGES=(dnsmasq-base)
# What fills a root folder to try packages in.
ROOT_PACKAGES=(mmdebstrap)
BENCH_PACKAGES=(gnuplot-nox)
# What `bench --against-grpc` compares with, and verbena-gateway and the library
# for etcd stand on; nothing else needs it.
GRPC_PACKAGES=(libgrpc++-dev protobuf-compiler-grpc)
# Programs that describe a NIC, and that measure it beside Verbena.
NIC_PACKAGES=(iproute2 ibverbs-utils perftest)
# What the gateway's tests call it with, and what makes certificates for tests
# of etcd.
GRPC_TEST_PACKAGES=(python3-grpcio python3-protobuf openssl)
# The web server of the status page, and what exports to Prometheus. Only they
# need it, and who installs or packages all there is.
OBSERVING_PACKAGES=(libcivetweb-dev prometheus-cpp-dev)
# What the status page is shown in by its test.
BROWSER_PACKAGES=(chromium)
# The profiler that counts the instructions of a call.
TRACE_PACKAGES=(valgrind)
# Reads captures of the software device's connections, for their test.
CAPTURE_PACKAGES=(tshark)
FORMAT_PACKAGES=(clang-format git)
# The headers are for a plugin of clang-tidy.
LINT_PACKAGES=(clang-tidy libclang-dev llvm-dev)
# What makes the site of documents; the third is the look of Doxygen's part.
DOCS_PACKAGES=(mkdocs-material doxygen doxygen-awesome-css)
# The second brings libFuzzer and the sanitizers.
FUZZ_PACKAGES=(clang libclang-rt-dev)

# The kernel that the virtual machines boot has another name on Ubuntu.
kernel_package() {
  case "$(distribution)" in
    ubuntu) echo linux-image-generic ;;
    *) echo linux-image-amd64 ;;
  esac
}

# debian, ubuntu, or what else this machine calls itself.
distribution() (
  ID=unknown ID_LIKE=
  [ ! -r /etc/os-release ] || . /etc/os-release
  case "$ID" in
    debian | ubuntu) echo "$ID" ;;
    *)
      case " $ID_LIKE " in
        *" ubuntu "*) echo ubuntu ;;
        *" debian "*) echo debian ;;
        *) echo "$ID" ;;
      esac
      ;;
  esac
)

# Packages from which tests/vm/siw.py builds siw. Ubuntu's kernel has it.
SIW_PACKAGES=()
[ "$(distribution)" = ubuntu ] ||
  SIW_PACKAGES=(linux-source linux-headers-amd64 gcc make)

# Prints those of "$@" that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
      grep -q '^install ok installed$' || echo "$package"
  done
}

# How to become root without being asked: prints "" or "sudo -n"; fails if there
# is no way.
root_prefix() {
  if [ "$(id -u)" = 0 ]; then
    echo ""
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    echo "sudo -n"
  else
    return 1
  fi
}

# Installs those of "$@" that are missing, or says what to do and ends with
# status 2.
require_packages() {
  local missing as_root
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    complain "Only Debian and Ubuntu, with apt-get, are supported here." \
      "Install the equivalents of these Debian packages:" \
      "$*"
    exit 2
  fi
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0

  if ! as_root=$(root_prefix); then
    complain "These packages are missing:" \
      "${missing[*]}" \
      "Installing them needs root or password-free sudo. Run:" \
      "sudo apt-get update" \
      "sudo apt-get install --no-install-recommends ${missing[*]}"
    exit 2
  fi
  echo "Installing: ${missing[*]}"
  install_packages "$as_root" "${missing[@]}"
}

install_packages() {
  local as_root=$1 unknown=() package log
  shift
  log=$(mktemp)
  $as_root apt-get update >"$log" 2>&1 || {
    cat "$log" >&2
    complain "apt-get update failed (above); using the old package lists."
  }
  for package in "$@"; do
    apt-cache show "$package" >/dev/null 2>&1 || unknown+=("$package")
  done
  if [ ${#unknown[@]} -gt 0 ]; then
    rm -f "$log"
    complain "This release of $(distribution) has no package ${unknown[*]}." \
      "Debian 12 has all. On Ubuntu enable the component \"universe\";" \
      "if bazel-bootstrap is still missing, use a container of Debian 12."
    exit 2
  fi
  if ! $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "$@" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    complain "apt-get install failed (above). Run it by hand to see more:" \
      "sudo apt-get install --no-install-recommends $*"
    exit 2
  fi
  rm -f "$log"
}

# The Prometheus server and promtool, for tests/prometheus.
require_prometheus() {
  require_unpacked prometheus .prometheus usr/bin/promtool
}

# etcd, for the tests of resolvers.
require_etcd() {
  require_unpacked etcd-server .etcd usr/bin/etcd
}

# require_unpacked PACKAGE FOLDER FILE: unpacks the package, which has the file,
# because the package, installed, starts a server for the whole machine.
require_unpacked() {
  local package=$1 target=$2
  [ ! -x "$target/$3" ] || return 0
  echo "Unpacking: $package"
  local folder log
  folder=$(mktemp -d)
  log=$folder/log
  chmod 755 "$folder"
  if ! (cd "$folder" && apt-get download "$package") >"$log" 2>&1 &&
    ! ($(root_prefix) apt-get update &&
      cd "$folder" && apt-get download "$package") >>"$log" 2>&1 ||
    ! dpkg-deb -x "$folder/$package"_*.deb "$target" >>"$log" 2>&1; then
    tail -n 30 "$log" >&2
    complain "Downloading the package $package failed (above). By hand:" \
      "apt-get download $package && dpkg-deb -x ${package}_*.deb $target"
    rm -rf "$folder"
    exit 2
  fi
  rm -rf "$folder"
}

# complain WHAT [MORE...]: each on a line of its own, to standard error.
complain() {
  printf './dev: %s\n' "$1" >&2
  shift
  [ $# -eq 0 ] || printf '  %s\n' "$@" >&2
}
