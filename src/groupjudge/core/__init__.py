"""The pure core: what happens to groups, decided without I/O, clock, task or lock. `book.Book` is its face."""
