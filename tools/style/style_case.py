"""What the style tests share."""

import os
import unittest

from source_tree import SourceTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


class StyleCase(unittest.TestCase):
    """Runs checks over samples, and over this repository."""

    longMessage = False
    _repository = None

    @classmethod
    def repository(cls):
        if StyleCase._repository is None:
            StyleCase._repository = SourceTree.read(ROOT)
        return StyleCase._repository

    def assert_clean(self, check):
        """`check` finds nothing in this repository."""
        problems = list(map(str, check(self.repository())))
        if problems:
            self.fail("%d problems (%s):\n%s" %
                      (len(problems), check.__doc__, "\n".join(problems)))

    def found(self, check, texts):
        """What `check` says of the files `texts`, {path: text}."""
        return list(map(str, check(SourceTree.of(texts))))

    def assert_finds(self, check, path, text, message, others=None):
        """`check` finds exactly one problem in `text`, saying `message`."""
        problems = self.found(check, {path: text, **(others or {})})
        self.assertEqual(len(problems), 1,
                         "%s in %r: %s" % (check.__name__, text, problems))
        self.assertIn(message, problems[0],
                      "%r not in %r" % (message, problems[0]))

    def assert_accepts(self, check, path, text, others=None):
        problems = self.found(check, {path: text, **(others or {})})
        self.assertEqual(problems, [], "%s in %r: %s" %
                         (check.__name__, text, problems))
