"""Names that papers and libraries have for what the language of masks calls otherwise."""

from attnviz.base.language import N_, _

# The name in the language of masks, and names that others use.
OTHER_NAMES = {
    "causal": "autoregressive lookahead look_ahead subsequent tril triangular",
    N_("~causal for what is after the query, or k >= q with the query itself"): "triu",
    "full": "all bidirectional dense noop",
    N_("longformer, or k < 2 for keys that all queries see"): "global",
    N_("sliding_window for what is before the query, or band for both sides"): "local window",
    "sliding_window": "swa",
    "band(0)": "diagonal eye",
    "prefix_lm": "prefix",
    "sinks": "attention_sink",
    "sinks_and_window": "a_shape lambda_shape streaming streaming_llm",
    N_("big_bird, or grid(rows, columns, 0x…, block) for blocks of your own"): "block_sparse",
    "vertical_slash": "slash vertical",
    N_("chunked for blocks of one size, or documents for a list of sizes"): "block_diagonal",
    "chunked": "chunk",
    "documents": "doc document document_mask jagged packed packing segment",
    N_("documents, as in documents([3, 4])"): "doc_id document_id sequence_id",
    "padding": "key_padding_mask pad padding_mask",
    "big_bird": "bigbird",
    "dilated_window": "dilated",
    "neighborhood_2d": "na2d natten",
    N_("strided, fixed or big_bird"): "sparse",
    "shifted_window_2d": "swin",
    "tree": "medusa speculative",
    N_("vertical_slash, or sinks_and_window for its A-shape"): "minference",
    N_("shifted, as in shifted(causal, 4)"): "offset",
    "q": "q_idx query query_idx row",
    "k": "col column key key_idx kv kv_idx",
    "h": "head head_idx",
    N_("n_q or n_k"): "length n seq_len",
}
SYNONYMS = {name: text for text, names in OTHER_NAMES.items() for name in names.split()}
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
        return _("It is a bias: it changes scores, and hides no key. Choose it under “Biases”, beside the mask.")
    if name in LIBRARIES:
        return _("Functions of libraries are not read. Write comparisons of q and k, joined with &, | and ~.")
    word = name if name in SYNONYMS else name.removesuffix("_mask").removesuffix("_attention").removesuffix("_mod")
    if (text := SYNONYMS.get(word, "")) and " " in text:  # names of masks are the same in every language
        text = _(text)
    return _("Here it is called {name}.", name=text) if text else ""
