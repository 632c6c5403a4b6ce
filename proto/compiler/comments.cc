#include "proto/compiler/comments.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/printer.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

// Leading comments come first, then those behind the declaration on its line,
// all above the generated code.
template <typename Descriptor>
void PrintCommentsOf(const Descriptor& descriptor, pb::io::Printer& printer) {
  pb::SourceLocation location;
  // Comments come with the source positions, which protoc may leave out.
  if (!descriptor.GetSourceLocation(&location)) return;
  for (const std::string* text :
       {&location.leading_comments, &location.trailing_comments}) {
    for (const std::string& line : CommentLines(*text)) {
      // As a value, so that a '$' in it means nothing to the printer.
      printer.Print("$line$\n", "line", line);
    }
  }
}

}  // namespace

std::vector<std::string> CommentLines(absl::string_view text) {
  std::vector<std::string> lines;
  text = absl::StripTrailingAsciiWhitespace(text);
  if (text.empty()) return lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    // GCC joins lines at a backslash even with blanks behind it, so blanks go
    // first.
    line = absl::StripTrailingAsciiWhitespace(line);
    const bool needs_space = !line.empty() && !absl::StartsWith(line, " ");
    lines.push_back(absl::StrCat("//", needs_space ? " " : "", line,
                                 absl::EndsWith(line, "\\") ? "." : ""));
  }
  return lines;
}

void PrintComments(const pb::ServiceDescriptor& descriptor,
                   pb::io::Printer& printer) {
  PrintCommentsOf(descriptor, printer);
}

void PrintComments(const pb::MethodDescriptor& descriptor,
                   pb::io::Printer& printer) {
  PrintCommentsOf(descriptor, printer);
}

}  // namespace verbena::compiler
