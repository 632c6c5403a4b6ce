// The interface of a relay to a queue pair: it carries a link to another host.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_LINK_DRIVER_H_
#define VERBENA_TRANSPORT_SOFT_LINK_LINK_DRIVER_H_

namespace verbena::soft {

// Moves bytes between a link and a socket that leads to the peer. The queue
// pair calls it wherever it looks at the link itself, so the thread that polls
// or waits does the work, and no other thread is woken. Only while nobody
// polls and nobody waits does the driver have a thread of its own do it.
//
// All methods are called with the lock of the queue pair held.
class LinkDriver {
 public:
  virtual ~LinkDriver() = default;

  // The socket, which is readable when the peer has sent something. Constant
  // from StartDriving() on.
  virtual int fd() const = 0;

  // From now on the driver moves bytes when it is called, and by itself until
  // Serve(false). False while there is no connection to the peer yet.
  virtual bool StartDriving() = 0;
  // The queue pair lets go of the link. What it has sent is still delivered.
  virtual void StopDriving() = 0;

  // Moves what the peer has sent into the link, as far as there is room.
  virtual void Receive() = 0;
  // Sends a part of what the queue pair has put into the link. Returns whether
  // anything went: if not, nothing is left, or the socket has no room.
  virtual bool Send() = 0;

  // Whether bytes wait for the link to have room: until then the socket stays
  // readable, and says nothing new. Also once the connection has ended.
  virtual bool input_blocked() const = 0;
  // Whether bytes wait for the socket to have room.
  virtual bool output_blocked() const = 0;
  // Whether Send() is to be called again though nothing more comes.
  virtual bool owes_peer() const = 0;

  // `serve` is whether the driver's own thread is to move bytes, and to ring
  // for them as a peer of this host would; `asleep` whether nobody polls, so
  // that the peer must not wait for the next call. Both are true at first.
  virtual void Serve(bool serve, bool asleep) = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_LINK_DRIVER_H_
