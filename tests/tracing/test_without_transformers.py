"""The base installation, which has no transformers, captures modules of torch."""

import subprocess
import sys

PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "transformers":
            raise ImportError("transformers is not installed")

sys.meta_path.insert(0, Blocked())
import torch
import attnviz

{code}
assert not any(name.split(".")[0] == "transformers" for name in sys.modules)
print("done")
"""

CAPTURE = """
model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True)
mask = torch.ones(3, 3).triu(1).bool()
[layer] = attnviz.capture(model, torch.randn(1, 3, 8), src_mask=mask)
assert (layer.fidelity, layer.mechanism.mask) == ("verified", attnviz.masks.Causal())

class Own(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

with attnviz.capturing(Own()) as traces:
    Own()(torch.randn(1, 2, 3, 8))
model = Own()
with attnviz.capturing(model) as traces:
    model(torch.randn(1, 2, 3, 8))
assert (len(traces), traces[0][0].mechanism.mask) == (1, attnviz.masks.Causal())
"""


def run(code):
    program = PROGRAM.format(code=code)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.stdout.strip().endswith("done"), result.stderr


def test_a_plain_module_is_captured_where_transformers_is_not_installed():
    run(CAPTURE)
