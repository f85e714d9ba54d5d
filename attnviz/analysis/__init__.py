"""Numbers computed from weights: head maps, head metrics, aggregation, downsampling, difference, receptive fields."""
