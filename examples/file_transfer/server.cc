// Serves filetransfer.FileTransfer until it gets SIGINT or SIGTERM.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "examples/common/serve.h"
#include "examples/file_transfer/digest.h"
#include "examples/file_transfer/file_transfer.verbena.h"
#include "rpc/buffer.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50055",
          "address and port to serve on; port 0 takes any free one");
ABSL_FLAG(std::string, directory, ".", "the folder in which files are kept");

namespace filetransfer {
namespace {

// A file that the destructor removes, unless KeepAs() has succeeded.
class PartialFile {
 public:
  explicit PartialFile(std::string path)
      : path_(std::move(path)), out_(path_, std::ios::binary) {}
  ~PartialFile() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove(path_, ignored);
  }

  // Returns false if this or an earlier write has failed.
  bool Append(absl::Span<const uint8_t> bytes) {
    out_.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return out_.good();
  }
  bool KeepAs(const std::string& path) {
    out_.close();
    std::error_code error;
    if (out_.good()) std::filesystem::rename(path_, path, error);
    kept_ = out_.good() && !error;
    return kept_;
  }

 private:
  const std::string path_;
  std::ofstream out_;
  bool kept_ = false;
};

class FileTransferService final : public FileTransfer::Service {
 public:
  explicit FileTransferService(std::string directory)
      : directory_(std::move(directory)) {}

 private:
  absl::Status Put(verbena::ServerContext* context,
                   verbena::ServerReader<Piece>* reader,
                   Receipt* response) override {
    Piece piece;
    verbena::Buffer bytes;
    if (!reader->Read(&piece, &bytes)) return absl::CancelledError();
    const std::string name = piece.name();
    // Refuses names that could lead out of the directory, or hide the file.
    if (name.empty() || name[0] == '.' || absl::StrContains(name, '/') ||
        absl::StrContains(name, '\0')) {
      return absl::InvalidArgumentError(
          "the name must be a plain file name: no path, and not hidden");
    }
    PartialFile file(absl::StrCat(directory_, "/.part", ++files_));
    Digest digest;
    do {
      if (!file.Append(bytes.span())) {
        return absl::ResourceExhaustedError("the file can't be written");
      }
      digest.Add(bytes.span());
      response->set_bytes(response->bytes() + bytes.size());
    } while (!piece.has_digest() && reader->Read(&piece, &bytes));
    if (!piece.has_digest()) {
      // The client is gone, or has not sent a digest with its last piece.
      return context->IsCancelled()
                 ? absl::CancelledError()
                 : absl::InvalidArgumentError("the last piece is missing");
    }
    if (piece.digest() != digest.value()) {
      return absl::DataLossError(
          "the bytes that arrived are not those that were sent");
    }
    return file.KeepAs(absl::StrCat(directory_, "/", name))
               ? absl::OkStatus()
               : absl::ResourceExhaustedError("the file can't be kept");
  }

  const std::string directory_;
  std::atomic<uint64_t> files_{0};
};

}  // namespace
}  // namespace filetransfer

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Keeps files that clients send.");
  absl::ParseCommandLine(argc, argv);

  filetransfer::FileTransferService service(absl::GetFlag(FLAGS_directory));
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterService(&service);
  return examples::Serve(builder);
}
