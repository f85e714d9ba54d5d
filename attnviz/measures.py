"""What a matrix of weights says."""
