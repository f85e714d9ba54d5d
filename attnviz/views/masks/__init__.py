"""What Masks shows: the same scores under two masks."""
