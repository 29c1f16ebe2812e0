"""One file a trainer, on the public names only (A6 to A13). Each has a page in docs/trainers/ and an example."""
