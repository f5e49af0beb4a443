import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

_loader = importlib.machinery.SourceFileLoader("count", "tools/count")
count = importlib.util.module_from_spec(importlib.util.spec_from_loader("count", _loader))
_loader.exec_module(count)


class Counting(unittest.TestCase):
    def test_words_are_counted_for_each_file(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.md").write_text("one two\nthree")
            self.assertEqual(count.counts(folder), {"a.md": 3})

    def test_the_picture_is_a_png(self):
        self.assertTrue(count.bars([1, 2]).startswith(b"\x89PNG"))


if __name__ == "__main__":
    unittest.main()
