// Sends a file to a filetransfer.FileTransfer.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "examples/file_transfer/digest.h"
#include "examples/file_transfer/file_transfer.verbena.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/client_stream.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50055", "address and port to call");
ABSL_FLAG(std::string, file, "", "the file to send");

namespace filetransfer {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

// Draws a bar on standard error.
class Progress {
 public:
  explicit Progress(uint64_t total) : total_(total) {}

  void Show(uint64_t done) {
    const uint64_t percent = total_ == 0 ? 100 : 100 * done / total_;
    if (percent == shown_) return;
    shown_ = percent;
    const size_t width = percent / 2;
    std::cerr << "\r[" << std::string(width, '#')
              << std::string(50 - width, ' ') << "] " << percent << " %";
    if (done == total_) std::cerr << std::endl;
  }

 private:
  const uint64_t total_;
  uint64_t shown_ = UINT64_MAX;
};

absl::Status Send(FileTransfer::Stub& stub, const std::filesystem::path& path,
                  Receipt* receipt) {
  std::error_code error;
  const uint64_t total = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in.is_open()) {
    return absl::NotFoundError("can't read " + path.string());
  }
  verbena::ClientContext context;
  auto writer = stub.Put(&context, receipt);
  Progress progress(total);
  Digest digest;
  std::vector<uint8_t> bytes(kPieceBytes);
  uint64_t sent = 0;
  bool goes_on = true;
  while (goes_on) {
    in.read(reinterpret_cast<char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
    const auto piece_bytes =
        absl::MakeConstSpan(bytes).first(static_cast<size_t>(in.gcount()));
    Piece piece;
    if (sent == 0) piece.set_name(path.filename());
    digest.Add(piece_bytes);
    sent += piece_bytes.size();
    goes_on = in.good();
    if (!goes_on) piece.set_digest(digest.value());
    // Write() copies the bytes, and waits while the server does not read. If it
    // returns false, the call has ended, and Finish() returns the reason.
    if (!writer->Write(piece, piece_bytes)) break;
    progress.Show(sent);
  }
  return writer->Finish();
}

}  // namespace
}  // namespace filetransfer

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Sends a file.");
  absl::ParseCommandLine(argc, argv);

  auto stub = filetransfer::FileTransfer::NewStub(
      verbena::CreateChannel(absl::GetFlag(FLAGS_target)));
  filetransfer::Receipt receipt;
  const absl::Status status =
      filetransfer::Send(*stub, absl::GetFlag(FLAGS_file), &receipt);
  if (!status.ok()) {
    std::cerr << "not sent: " << status << std::endl;
    return 1;
  }
  std::cout << "the server keeps " << receipt.bytes() << " bytes" << std::endl;
  return 0;
}
