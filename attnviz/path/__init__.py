"""Every activation of a forward pass, from the words to the next word, with what each was computed from."""
