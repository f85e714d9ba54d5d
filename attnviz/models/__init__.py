"""Any Hugging Face model: found, loaded safely, kept within bounds, and given text or a picture.

`loading` makes a model of a folder, which `folder` and `config` inspect first; `hub` downloads the folder of an id,
`model_cache` keeps models in memory, `text_inputs` and `image_inputs` make a model's inputs, and `model` is the result.
"""
