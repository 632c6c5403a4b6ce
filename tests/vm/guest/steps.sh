# What the plans of the guests are written in. Every step is bounded, and leaves
# its output in $VM_SHARE/NAME.log and its exit status in $VM_SHARE/NAME.status.

COUNTERS=/sys/class/infiniband/rxe0/ports/1/hw_counters

# step NAME SECONDS COMMAND...
step() {
  local name=$1 seconds=$2 status=0 begin=$SECONDS
  shift 2
  echo "vm: begin $name"
  timeout -k 10 "$seconds" "$@" >"$VM_SHARE/$name.log" 2>&1 </dev/null ||
    status=$?
  echo "$status" >"$VM_SHARE/$name.status"
  echo "vm: end $name, status $status, in $((SECONDS - begin)) s"
}

# gtest NAME SECONDS BINARY [ARG...]: a step that also leaves NAME.xml.
gtest() {
  local name=$1 seconds=$2
  shift 2
  step "$name" "$seconds" "$@" "--gtest_output=xml:$VM_SHARE/$name.xml"
}

# counters NAME: leaves rxe's counters, a name and a value a line.
counters() {
  local file
  for file in "$COUNTERS"/*; do
    echo "$(basename "$file") $(cat "$file")"
  done >"$VM_SHARE/$1.counters"
}

# siw_up, siw_down: siw0, the kernel's software iWARP, on the other end of the
# veth pair, which has an address of its own.
siw_up() {
  insmod "$VM_SHARE/libcrc32c.ko" 2>/dev/null  # Some kernels have it loaded.
  insmod "$VM_SHARE/siw.ko" &&
    ip addr add "10.78.0.$VM_NODE/24" dev net1 &&
    rdma link add siw0 type siw netdev net1 && echo "vm: siw0 is up"
}
siw_down() {
  rdma link del siw0
  rmmod siw
  ip addr del "10.78.0.$VM_NODE/24" dev net1
}

# await FILE SECONDS: until the other guest (or a server here) leaves FILE.
await() {
  local deadline=$((SECONDS + $2))
  until [ -e "$VM_SHARE/$1" ]; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.1
  done
}

# ask TEXT: the other guest, which serves, runs shell text. Returns its status.
ask() {
  local status
  echo "$1" >"$VM_SHARE/order.part"
  mv "$VM_SHARE/order.part" "$VM_SHARE/order"
  await obeyed 60 || return 1
  status=$(cat "$VM_SHARE/obeyed")
  rm "$VM_SHARE/obeyed"
  return "$status"
}
obey() {
  local status=0
  [ -e "$VM_SHARE/order" ] || return 0
  bash "$VM_SHARE/order" || status=$?
  rm "$VM_SHARE/order"
  echo "$status" >"$VM_SHARE/obeyed.part"
  mv "$VM_SHARE/obeyed.part" "$VM_SHARE/obeyed"
}

# serve NAME SECONDS COMMAND...: a server for the other guest, until that one
# leaves NAME.finished. Meanwhile this guest does what that one asks for. The
# step passes if the server listened, lived until then, and ended with status 0
# at SIGTERM.
serve() {
  local name=$1 seconds=$2 status=0 server
  shift 2
  echo "vm: begin $name"
  "$@" >"$VM_SHARE/$name.log" 2>&1 </dev/null &
  server=$!
  if serve_until_finished "$name" "$seconds" "$server"; then
    kill -TERM "$server"
    (sleep 15; kill -KILL "$server") 2>/dev/null &
    wait "$server" || status=$?
    kill $! 2>/dev/null
  else
    : >"$VM_SHARE/$name.ready"  # The client need not wait to learn of it.
    if kill -KILL "$server" 2>/dev/null; then
      status=124
    else
      wait "$server" && status=1 || status=$?
    fi
  fi
  echo "$status" >"$VM_SHARE/$name.status"
  echo "vm: end $name, status $status"
}

serve_until_finished() {
  local name=$1 deadline=$((SECONDS + $2)) server=$3
  until grep -q 'listening on' "$VM_SHARE/$name.log"; do
    kill -0 "$server" && [ $SECONDS -lt $deadline ] || return 1
    sleep 0.1
  done
  : >"$VM_SHARE/$name.ready"
  until [ -e "$VM_SHARE/$name.finished" ]; do
    kill -0 "$server" && [ $SECONDS -lt $deadline ] || return 1
    obey
    sleep 0.1
  done
}

# perftest TOOL [ARG...]: a tool of perftest against itself, in this guest. Its
# two ends now and then lose one another when they part: three tries.
perftest() {
  perftest_once "$@" || perftest_once "$@" || perftest_once "$@"
}

perftest_once() {
  local tool=$1 server
  shift
  set -o pipefail
  "$tool" -F "$@" >/dev/null 2>&1 &
  server=$!
  until ss -Hltn 'sport = :18515' | grep -q .; do
    kill -0 "$server" || return 1
    sleep 0.1
  done
  if "$tool" -F "$@" "$VERBENA_TEST_ADDRESS" |
    sed -n '/#bytes/,/^ *[0-9]/p'; then
    wait "$server"
  else
    kill -KILL "$server" 2>/dev/null
    return 1
  fi
}
export -f perftest perftest_once
