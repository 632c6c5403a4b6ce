#include "tools/rpc_bench/usage.h"

namespace verbena::bench {

absl::string_view Usage() {
  return
      R"(rpc_bench: what a call costs, in time and in throughput.

Without flags it starts a server process of its own on the best device at hand
and measures echoes of 64 B, 4 KiB, 64 KiB and 1 MiB at three layers: by bare
verbs, over the transport, and by RPC. Latency is that with one call
outstanding, throughput that with 32; ratios are to the verbs layer.

Where:
  --target=ADDRESS:PORT  measure the server there (rpc_bench --server)
  --server[=ADDRESS:PORT]
                         serve, by default on 0.0.0.0:50051, until SIGINT or
                         SIGTERM, and measure nothing; port 0 is any free port
  --device=NAME          soft, or the name of an RDMA device; without it, the
                         environment variable VERBENA_DEVICE if it is set
  --pin=C,S | off        processors for client and server; without it, the
                         first and the last that there are (with --server: one
                         number; without it none)

What:
  --layer=L[,L...]       verbs, transport, rpc
  --size=N[,N...]        payload bytes of a call, as in 64, 4KiB or 1MiB
  --outstanding=N[,N...] calls under way at once; at the rpc layer 1 calls in a
                         blocking way, more by callbacks
  --payload=field | attachment
                         at the rpc layer: in a bytes field of the message, or
                         beside it; without it, beside it from 64 KiB on
  --events               both sides sleep whenever there is nothing to do,
                         instead of polling; a server needs the flag too
  --duration=TIME        of each measurement, as in 500ms, 2s or 2
  --iterations=N         measure so many calls, however long they take
  --rate=N               open loop: start N calls a second by the clock, and
                         count latency from when a call was due
  --validate             compare the bytes of every echo, each with a number of
                         its own; without it, of the first, and then lengths
  --idle                 measure no calls, but the processor time that idle
                         connections take

The transport layer (a server needs the flag too):
  --continued-max=N      messages up to so many bytes go as several SENDs when
                         one is too short (16KiB); 0 for RDMA READ and WRITE

The verbs layer:
  --verbs-op=OP[,OP...]  echo, and one-way streams: send, write, read
  --bulk-threshold=N     larger echoes move by RDMA READ and WRITE (8KiB)
  --rx-depth=N           receives kept posted
  --inline=N             largest message that is posted inline
  --ib-port=N, --gid-index=N, --mtu=N
                         fail if the connection manager has chosen another, by
                         the route to the server: it takes no wishes

Output:
  --json[=FILE]          one JSON object, to standard output instead of the
                         table, or to a file beside it
  --csv[=FILE]           likewise, a line a result
  --plot=FILE.svg        charts
  --help                 this text

MB/s counts the payload of the requests; as many bytes come back, except in
streams. "cpu us" is the processor time of client and server a call. Percentiles
are at most 0.8 % too high. Exit code 0: measured; 1: no server, or every call
of a measurement failed; 2: bad flags.
)";
}

}  // namespace verbena::bench
