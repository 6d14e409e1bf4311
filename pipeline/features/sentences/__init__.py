"""Sentences as vectors of fixed width.

- `encoder`: `SentenceEncoder`, fitted, kept in a file, and its job: the vectors of all captions;
- `encodings`: what turns captions into vectors, a file each; `state`: what they are made from;
- `bags`, `fisher`, `mixtures`, `word_space`: Fisher vectors and means of word vectors;
- `lemmas`, `wordnet`, `stop_words`: the terms of tf-idf;
- `text_network`: networks of sentence-transformers, found, checked and loaded.
"""
