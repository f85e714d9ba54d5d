"""A visitor without a browser: a websocket client that speaks Streamlit's protocol, as far as a visitor needs it."""

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

SOCKET = "_stcore/stream"
# The field of a widget's message that holds its value, by kind of widget.
FIELDS = {
    **dict.fromkeys(("text_input", "text_area", "selectbox"), "string_value"),
    **dict.fromkeys(("multiselect", "button_group"), "string_array_value"),
    "number_input": "double_value",
    "slider": "double_array_value",
    "checkbox": "bool_value",
    "button": "trigger_value",
    "file_uploader": "file_uploader_state_value",
    "download_button": "",
}
TRIGGERS = {"trigger_value", "json_trigger_value"}


@dataclass
class Visitor:
    """One visit: the widgets of the page as it is drawn, and the values that the visitor has given them."""

    address: str
    connection: ClientConnection
    page_name: str = ""  # in the address; empty for the first page
    query: str = ""  # of the link that the visit begins with
    page: str = ""  # the hash of the page
    session: str = ""
    widgets: dict[tuple[str, str], Any] = field(default_factory=dict)  # by kind and label, or the key of a chart
    stamps: dict[str, int] = field(default_factory=dict)  # of the pictures that the charts show, by their keys
    values: dict[str, tuple[str, Any]] = field(default_factory=dict)  # by id: the field of its message, and its value
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # rows and columns of these pictures
    alerts: list[str] = field(default_factory=list)  # what the page says besides its pictures, such as errors
    errors: list[str] = field(default_factory=list)  # those of the alerts that are errors
    received: int = 0  # bytes
    fragment: str = ""  # the id of one that asks for runs of its own
    _is_fragment: bool = False  # whether the run under way is that of a fragment

    def set(self, kind: str, label: str, value: Any) -> None:
        """Gives a widget a value, for the next run."""
        widget = self.widgets[kind, label]
        self.values[widget.id] = _field(kind, widget), value

    def click(self, chart: str, row: int, column: int) -> None:
        """Clicks a cell of a chart, for the next run."""
        self.send_event(chart, "click", {"stamp": self.stamps[chart], "row": row, "column": column})

    def send_event(self, chart: str, event: str, value: object) -> None:
        """Lets the chart with this key report an event, for the next run."""
        base = self.widgets["bidi_component", chart].id
        events = json.dumps([{"event": event, "value": value}])
        self.values[base] = "json_value", "{}"  # its state
        self.values[f"$$STREAMLIT_INTERNAL_KEY_{base}__events"] = "json_trigger_value", events

    def is_enabled(self, name: tuple[str, str]) -> bool:
        """Returns whether a widget can be used."""
        return not getattr(self.widgets[name], "disabled", False)

    async def run(self, *, fragment: str = "") -> float:
        """Runs the page; returns the seconds until it has ended. Raises RuntimeError if it shows an exception."""
        began = time.perf_counter()
        await self.request_run(fragment)
        await self.end_of_run()
        return time.perf_counter() - began

    async def request_run(self, fragment: str = "") -> None:
        """Asks for a run of the page, or of a fragment of it."""
        request = BackMsg()
        rerun = request.rerun_script
        rerun.page_name, rerun.page_script_hash, rerun.query_string = self.page_name, self.page, self._query_string()
        rerun.fragment_id, rerun.is_auto_rerun, self._is_fragment = fragment, bool(fragment), bool(fragment)
        for name, (kind, value) in self.values.items():
            state = rerun.widget_states.widgets.add(id=name)
            if kind.endswith("array_value"):
                getattr(state, kind).data.extend(value)
            elif kind == "file_uploader_state_value":
                state.file_uploader_state_value.uploaded_file_info.add().CopyFrom(value)
            else:
                setattr(state, kind, value)
        self.values = {name: one for name, one in self.values.items() if one[0] not in TRIGGERS}
        await self._send(request)

    async def end_of_run(self) -> None:
        """Waits for the end of a run. Raises RuntimeError if it shows an exception."""
        while True:
            message = await self._receive()
            match message.WhichOneof("type"):
                case "new_session":
                    new = message.new_session
                    self.page, self.session = new.page_script_hash, new.initialize.session_id or self.session
                    if not self._is_fragment:
                        self.widgets, self.alerts, self.errors, self.fragment = {}, [], [], ""
                case "navigation":
                    self.page = message.navigation.page_script_hash
                case "auto_rerun":
                    self.fragment = message.auto_rerun.fragment_id
                case "delta":
                    self._keep(message.delta.new_element)
                case "script_finished" if message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    self._is_fragment = False  # what follows is a run of the page
                case "script_finished" if message.script_finished in _ENDS:
                    self.values = {name: one for name, one in self.values.items() if self._is_drawn(name)}
                    return

    async def upload(self, label: str, file: Path) -> None:
        """Uploads a file, for the next run."""
        request = BackMsg()
        request.file_urls_request.request_id, request.file_urls_request.session_id = "upload", self.session
        request.file_urls_request.file_names.append(file.name)
        await self._send(request)
        while (message := await self._receive()).WhichOneof("type") != "file_urls_response":
            pass
        urls = message.file_urls_response.file_urls[0]
        await asyncio.to_thread(_put, self.address, urls.upload_url, file)
        from streamlit.proto.Common_pb2 import UploadedFileInfo

        info = UploadedFileInfo(name=file.name, size=file.stat().st_size, file_id=urls.file_id, file_urls=urls)
        self.set("file_uploader", label, info)

    async def download(self, label: str) -> bytes:
        """Returns the file of a download button. Raises RuntimeError if it cannot be made."""
        request = BackMsg()
        operation = request.backend_operation_request
        operation.request_id, operation.session_id = "download", self.session
        operation.deferred_file.file_id = self.widgets["download_button", label].deferred_file_id
        await self._send(request)
        while (message := await self._receive()).WhichOneof("type") != "backend_operation_response":
            pass
        response = message.backend_operation_response
        if response.error_msg:
            raise RuntimeError(response.error_msg)
        return await asyncio.to_thread(_get, self.address + response.deferred_file.url)

    def _keep(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            raise RuntimeError(f"{element.exception.type}: {element.exception.message}")
        if kind == "alert":
            self.alerts.append(element.alert.body)
            self.errors += [element.alert.body] * (element.alert.format == element.alert.ERROR)
        if kind == "bidi_component":
            component = element.bidi_component
            data = component.bytes
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]) if data else {}
            if "clickStamp" in header:
                key = header["key"]
                self.widgets[kind, key], self.stamps[key] = component, header["clickStamp"]
                self.sizes[key] = _size(header)
        if kind in FIELDS:
            widget = getattr(element, kind)
            self.widgets[kind, widget.label] = widget
            if getattr(widget, "set_value", False):
                name = next(name for name in ("value", "raw_value", "raw_values") if hasattr(widget, name))
                value = getattr(widget, name)
                if _is_select_slider(kind, widget):
                    value = widget.raw_value
                value = value if isinstance(value, str | bool | float) else [*value]
                self.values[widget.id] = _field(kind, widget), value
            elif (value := _first_value(kind, widget)) is not None:
                self.values.setdefault(widget.id, (_field(kind, widget), value))

    def _is_drawn(self, name: str) -> bool:
        return any(widget.id in name for widget in self.widgets.values())

    def _query_string(self) -> str:
        """Returns the link, into which a browser writes the values of widgets that are bound to it."""
        if not self.page:
            return self.query
        linked = {}
        for (kind, _), widget in self.widgets.items():
            value = self.values.get(widget.id, ("", None))[1]
            if getattr(widget, "query_param_key", "") and value != _first_value(kind, widget):
                linked[widget.query_param_key] = value
        return urlencode(linked, doseq=True)

    async def _send(self, request: BackMsg) -> None:
        await self.connection.send(request.SerializeToString())

    async def _receive(self) -> ForwardMsg:
        data = await self.connection.recv(decode=False)
        self.received += len(data)
        return ForwardMsg.FromString(data)


def _size(header: dict[str, Any]) -> tuple[int, int]:
    """Returns the rows and columns of the picture of a heatmap; of another, 1 and 1."""
    data = header["figure"]["data"]
    numbers = data[0].get("z") if data else None
    shape = numbers["shape"] if isinstance(numbers, dict) else ()
    return (shape[0], shape[1]) if len(shape) == 2 else (1, 1)


def _is_select_slider(kind: str, widget: Any) -> bool:
    return kind == "slider" and bool(widget.type == widget.SELECT_SLIDER)


def _field(kind: str, widget: Any) -> str:
    return "string_array_value" if _is_select_slider(kind, widget) else FIELDS[kind]


def _first_value(kind: str, widget: Any) -> Any:
    """Returns the value with which a browser draws a widget; None for one without."""
    match kind:
        case "text_input" | "text_area" | "checkbox":
            return widget.default
        case "number_input":
            return widget.default if widget.HasField("default") else None
        case "selectbox":
            return widget.options[widget.default] if widget.options else None
        case "multiselect" | "button_group":
            return [getattr(option, "content", option) for option in (widget.options[i] for i in widget.default)]
        case "slider" if _is_select_slider(kind, widget):
            return [widget.options[int(place)] for place in widget.default]
        case "slider":
            return [*widget.default]
    return None


_ENDS = {ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY}


@asynccontextmanager
async def visit(address: str, page_name: str = "", query: str = "", cookie: str = "") -> AsyncIterator[Visitor]:
    """A visitor at a page of the app, which is not run yet; with this cookie."""
    socket = f"{address.replace('http', 'ws', 1)}/{SOCKET}"
    headers = {"cookie": cookie} if cookie else None
    async with connect(
        socket, subprotocols=["streamlit"], additional_headers=headers, max_size=None, open_timeout=60
    ) as connection:  # type: ignore[list-item]
        yield Visitor(address, connection, page_name, query)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:
        return bytes(response.read())


def _put(address: str, path: str, file: Path) -> None:
    with urllib.request.urlopen(f"{address}/_stcore/health", timeout=60) as response:
        token = SimpleCookie(response.headers["set-cookie"])["_streamlit_xsrf"].value
    body = b'--cut\r\ncontent-disposition: form-data; name="file"; filename="%s"\r\n\r\n%s\r\n--cut--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=cut", "cookie": f"_streamlit_xsrf={token}"}
    url = f"{urlsplit(address).scheme}://{urlsplit(address).netloc}{path}" if path.startswith("/") else path
    request = urllib.request.Request(
        url, body % (file.name.encode(), file.read_bytes()), headers | {"x-xsrftoken": token}, method="PUT"
    )
    with urllib.request.urlopen(request, timeout=60):
        pass
