"""bm25s, stemmed, over texts in a file of JSON: rankings of documents for each question."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import bm25s
import Stemmer


def main() -> None:
    """Read {"texts", "questions", "depth"} and write a list of rankings by row number."""
    given = json.loads(Path(sys.argv[1]).read_text())
    stemmer = Stemmer.Stemmer("english")
    options = {"stopwords": "en", "stemmer": stemmer, "show_progress": False}
    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(bm25s.tokenize(given["texts"], **options), show_progress=False)
    depth = min(given["depth"], len(given["texts"]))
    found, scores = index.retrieve(
        bm25s.tokenize(given["questions"], **options), k=depth, show_progress=False
    )
    rankings = [
        [int(row) for row, score in zip(rows, marks, strict=True) if score > 0]
        for rows, marks in zip(found.tolist(), scores.tolist(), strict=True)
    ]
    sys.stdout.write(json.dumps(rankings))


if __name__ == "__main__":
    main()
