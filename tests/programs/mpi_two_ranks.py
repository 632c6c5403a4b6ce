#!/usr/bin/python3
"""What MPI does between two ranks: point to point, a reduction, one-sided.

It takes Debian's mpi4py, and so Debian's Python. Run by mpirun.
"""

import sys

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
OTHER = 1 - RANK


def pattern(length):
    return bytes(7 * i % 251 for i in range(length))


def check(right, what):
    if not right:
        print("rank %d: %s" % (RANK, what), flush=True)
        WORLD.Abort(1)


def exchange(length):
    """A message there and back, small ones and those that need a READ."""
    buffer = bytearray(pattern(length) if RANK == 0 else length)
    if RANK == 0:
        WORLD.Send([buffer, MPI.BYTE], dest=OTHER)
        buffer[:] = bytes(length)
        WORLD.Recv([buffer, MPI.BYTE], source=OTHER)
    else:
        WORLD.Recv([buffer, MPI.BYTE], source=OTHER)
        WORLD.Send([buffer, MPI.BYTE], dest=OTHER)
    check(buffer == pattern(length), "%d bytes came otherwise" % length)


def put():
    """Rank 0 writes into the memory of rank 1, and reads from it."""
    memory = bytearray(pattern(4096) if RANK == 1 else 4096)
    window = MPI.Win.Create(memory, comm=WORLD)
    got = bytearray(1000)
    window.Fence()
    if RANK == 0:
        window.Put([b"hello", MPI.BYTE], OTHER)
        window.Get([got, MPI.BYTE], OTHER, target=3000)
    window.Fence()
    check(RANK == 0 or memory[:5] == b"hello", "nothing was put")
    check(RANK == 1 or got == pattern(4096)[3000:4000], "something else got")
    window.Free()


def main():
    check(WORLD.Get_size() == 2, "this is for two ranks")
    for length in (8, 5000, 1 << 20):
        exchange(length)
    check(WORLD.allreduce(RANK + 1) == 3, "1 + 2 is not 3")
    put()
    print("rank %d is done" % RANK, flush=True)


if __name__ == "__main__":
    sys.exit(main())
