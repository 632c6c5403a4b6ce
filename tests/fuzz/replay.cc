// Takes the place of libFuzzer in an ordinary test: runs the fuzz target that
// it is linked with once on each given file.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("a fuzz target without a corpus tests nothing\n", stderr);
    return 1;
  }
  for (int i = 1; i < argc; ++i) {
    // The last one that is named is the one that failed.
    std::printf("%s\n", argv[i]);
    std::fflush(stdout);
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fputs("it can't be read\n", stderr);
      return 1;
    }
    const std::string text(std::istreambuf_iterator<char>(file), {});
    // In memory of exactly that size, so that a sanitizer sees reads outside.
    const auto bytes = std::make_unique<uint8_t[]>(text.size());
    text.copy(reinterpret_cast<char*>(bytes.get()), text.size());
    LLVMFuzzerTestOneInput(bytes.get(), text.size());
  }
  std::printf("%d inputs\n", argc - 1);
  return 0;
}
