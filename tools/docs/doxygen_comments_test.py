"""What Doxygen is shown of a header's comments."""

import unittest

from doxygen_comments import convert

HEADER = """// A queue.
//
//   Queue queue;

#ifndef A_H_
#define A_H_

namespace verbena {

class Other;  // rpc/server.h

// Holds <things>, as `a<b>` does.
class Queue {
 public:
  // How many.
  int size() const {
    // Inside.
    return size_;
  }

  // Both.
  void First();
  void Second();

  // Of nothing.

  int kind = 1;  // What it is.

 private:
  // Not for users.
  int size_;
};

}  // namespace verbena

#endif  // A_H_
"""


class DoxygenComments(unittest.TestCase):

    def setUp(self):
        self.text = convert("rpc/channel.h", HEADER)

    def shows(self, text):
        self.assertIn(text, self.text)

    def test_no_line_moves(self):
        self.assertEqual(len(self.text.splitlines()),
                         len(HEADER.splitlines()))

    def test_the_file(self):
        self.shows("/// A queue. @file\n///\n///       Queue queue;\n")

    def test_a_class_has_its_topic_and_no_tags(self):
        self.shows("/// Holds \\<things\\>, as `a<b>` does. @ingroup client\n")

    def test_a_member(self):
        self.shows("  /// How many.\n  int size() const {")

    def test_bodies_and_loose_comments_stay(self):
        self.shows("    // Inside.\n")
        self.shows("  // Of nothing.\n")
        self.shows("class Other;  // rpc/server.h\n")

    def test_neighbours_share_a_comment(self):
        self.shows("/** @{ */ /// Both.\n  void First();\n"
                   "  void Second();  /** @} */\n")

    def test_a_comment_behind_a_member(self):
        self.shows("int kind = 1;  ///< What it is.\n")

    def test_private_parts_are_hidden(self):
        self.assertNotIn("size_;\n};", self.text)
        self.assertNotIn("Not for users", self.text)


if __name__ == "__main__":
    unittest.main()
