"""The viewer that follows a model while it writes."""

from threading import Event

import pytest
import torch
import transformers as hf

import attnviz
from attnviz.notebook.writing_widget import WITHOUT_KERNEL, WritingWidget
from tests.support.architectures import BOTH, GROUPED

PROMPT, NEW = [7, 8, 9], 6


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)).eval()
    made.generation_config.eos_token_id = None
    return made


def paused(model, position, go_on, **options):
    """Steps that wait before one of them."""
    for step in attnviz.writing(model, None, PROMPT, NEW, **options):
        if step.position == position:
            assert go_on.wait(60)
        yield step


def test_the_widget_grows_and_the_newest_query_is_pinned(model):
    widget = attnviz.show(attnviz.writing(model, None, PROMPT, NEW), layer=1)
    assert isinstance(widget, WritingWidget)
    widget.wait(60)
    assert not widget.is_writing
    assert [step.position for step in widget.steps] == [*range(NEW)]
    assert [layer.inputs.queries for layer in widget.layers] == [8, 8]
    assert (widget.layer, widget.query, widget._growth) == (1, 7, [NEW, ""])


def test_a_query_that_was_chosen_stays_pinned(model):
    go_on = Event()
    widget = attnviz.show(paused(model, 1, go_on))
    assert widget.query == 2
    widget.query = 1
    go_on.set()
    widget.wait(60)
    assert widget.query == 1
    assert attnviz.show(attnviz.writing(model, None, PROMPT, 1), query=0).query == 0


def test_a_layer_of_an_encoder_keeps_its_queries():
    torch.manual_seed(0)
    translator = hf.BartForConditionalGeneration(hf.BartConfig(**BOTH)).eval()
    translator.generation_config.eos_token_id = None
    widget = attnviz.show(attnviz.writing(translator, None, PROMPT, NEW))
    widget.wait(60)
    assert [layer.inputs.queries for layer in widget.layers] == [3, 3, NEW, NEW]
    assert widget.query == 2


def test_what_is_written_so_far_is_said(model):
    go_on = Event()
    widget = attnviz.show(paused(model, 3, go_on))
    while len(widget.steps) < 3:
        assert widget.is_writing
    assert widget._growth == [3, "".join(step.token for step in widget.steps)]
    go_on.set()
    widget.wait(60)


def test_writing_can_be_stopped(model):
    go_on, closed = Event(), []

    def steps():
        try:
            yield from paused(model, 2, go_on)
        finally:
            closed.append(True)

    widget = attnviz.show(steps())
    widget._is_stopped.set()
    go_on.set()
    widget.stop()
    assert len(widget.steps) < NEW
    assert closed == [True]


def test_what_the_model_raises_is_said_and_raised_by_wait(model):
    def steps():
        yield from attnviz.writing(model, None, PROMPT, 2)
        raise ValueError("The model is gone.")

    widget = attnviz.show(steps())
    with pytest.raises(ValueError, match=r"The model is gone\."):
        widget.wait(60)
    assert widget._growth[1] == "The model is gone."


def test_a_missing_layer_ends_it_with_its_reason(model):
    go_on = Event()
    widget = attnviz.show(paused(model, 1, go_on))
    attention = model.model.layers[1].self_attn
    attention.scaling *= 2
    try:
        go_on.set()
        with pytest.raises(ValueError, match=r"layer 1 is not shown: its output is not what"):
            widget.wait(60)
    finally:
        attention.scaling /= 2


def test_without_a_kernel_it_says_how_to_keep_the_picture(model):
    widget = attnviz.show(attnviz.writing(model, None, PROMPT, 2))
    assert WITHOUT_KERNEL in widget._output()
    widget.wait(60)
    kept = attnviz.show(widget.steps)
    assert kept.layers == widget.layers
    assert WITHOUT_KERNEL not in kept._output()
    assert attnviz.show(widget.steps[0]).layers == widget.steps[0].trace.layers


def test_without_anywidget_the_last_step_is_shown(model, monkeypatch):
    monkeypatch.setattr("attnviz.notebook.find_spec", lambda name: None)
    viewer = attnviz.show(attnviz.writing(model, None, PROMPT, NEW))
    assert not isinstance(viewer, WritingWidget)
    assert viewer.layers[0].inputs.queries == 8
