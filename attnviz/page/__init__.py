"""What pages are made of: blocks, in the order in which they are read, and how places draw them."""
