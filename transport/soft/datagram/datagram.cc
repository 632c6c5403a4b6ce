#include "transport/soft/datagram/datagram.h"

#include <arpa/inet.h>

#include <cstring>

#include "transport/soft/base/limits.h"

namespace verbena::soft {

bool ReadDatagramHeader(const std::byte* bytes, size_t length,
                        DatagramHeader& header) {
  if (length < sizeof(header) || length > kDatagramBytesMax) return false;
  std::memcpy(&header, bytes, sizeof(header));
  if (header.magic != kDatagramMagic || header.version != kDatagramVersion) {
    return false;
  }
  header.destination_qp = ntohl(header.destination_qp);
  header.source_qp = ntohl(header.source_qp);
  header.qkey = ntohl(header.qkey);
  header.flow_label = ntohl(header.flow_label);
  return header.destination_qp <= kQueuePairNumberMax &&
         header.source_qp <= kQueuePairNumberMax;
}

DatagramHeader ToWire(const DatagramHeader& header) {
  DatagramHeader wire = header;
  wire.destination_qp = htonl(header.destination_qp);
  wire.source_qp = htonl(header.source_qp);
  wire.qkey = htonl(header.qkey);
  wire.flow_label = htonl(header.flow_label);
  return wire;
}

}  // namespace verbena::soft
