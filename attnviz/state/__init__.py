"""What a link says: the states of pages, frozen values with declared fields."""
