"""Names that papers and libraries have for what the language of masks calls otherwise."""

# A name, and how to write it here.
SYNONYMS = {
    "autoregressive": "causal",
    "lookahead": "causal",
    "look_ahead": "causal",
    "subsequent": "causal",
    "tril": "causal",
    "triangular": "causal",
    "triu": "~causal for what is after the query, or k >= q with the query itself",
    "all": "full",
    "bidirectional": "full",
    "dense": "full",
    "global": "longformer, or k < 2 for keys that all queries see",
    "noop": "full",
    "local": "sliding_window for what is before the query, or band for both sides",
    "swa": "sliding_window",
    "window": "sliding_window for what is before the query, or band for both sides",
    "diagonal": "band(0)",
    "eye": "band(0)",
    "prefix": "prefix_lm",
    "attention_sink": "sinks",
    "a_shape": "sinks_and_window",
    "block_sparse": "big_bird, or grid(rows, columns, 0x…, block) for blocks of your own",
    "lambda_shape": "sinks_and_window",
    "slash": "vertical_slash",
    "streaming": "sinks_and_window",
    "streaming_llm": "sinks_and_window",
    "block_diagonal": "chunked for blocks of one size, or documents for a list of sizes",
    "chunk": "chunked",
    "doc": "documents",
    "doc_id": "documents, as in documents([3, 4])",
    "document": "documents",
    "document_id": "documents, as in documents([3, 4])",
    "document_mask": "documents",
    "jagged": "documents",
    "packed": "documents",
    "packing": "documents",
    "segment": "documents",
    "sequence_id": "documents, as in documents([3, 4])",
    "key_padding_mask": "padding",
    "pad": "padding",
    "padding_mask": "padding",
    "bigbird": "big_bird",
    "dilated": "dilated_window",
    "na2d": "neighborhood_2d",
    "natten": "neighborhood_2d",
    "sparse": "strided, fixed or big_bird",
    "swin": "shifted_window_2d",
    "medusa": "tree",
    "minference": "vertical_slash, or sinks_and_window for its A-shape",
    "speculative": "tree",
    "vertical": "vertical_slash",
    "offset": "shifted, as in shifted(causal, 4)",
    "q_idx": "q",
    "query": "q",
    "query_idx": "q",
    "row": "q",
    "col": "k",
    "column": "k",
    "key": "k",
    "key_idx": "k",
    "kv": "k",
    "kv_idx": "k",
    "head": "h",
    "head_idx": "h",
    "length": "n_q or n_k",
    "n": "n_q or n_k",
    "seq_len": "n_q or n_k",
}
BIASES = ("alibi", "kerple", "sandwich", "soft_cap", "softcap", "ssmax", "t5", "t5_bias", "t5_buckets")
LIBRARIES = ("jnp", "math", "np", "numpy", "torch")


def how_to_write(name: str) -> str:
    """Returns a sentence that says what to write in place of a name; empty if the name is not known.

    Example:
        >>> how_to_write("tril")
        'Here it is called causal.'
    """
    name = name.lower()
    if name in BIASES:
        return "It is a bias: it changes scores, and hides no key. Choose it under “Biases”, beside the mask."
    if name in LIBRARIES:
        return "Functions of libraries are not read. Write comparisons of q and k, joined with &, | and ~."
    word = name if name in SYNONYMS else name.removesuffix("_mask").removesuffix("_attention").removesuffix("_mod")
    return f"Here it is called {SYNONYMS[word]}." if word in SYNONYMS else ""
