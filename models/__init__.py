"""The papers as executable models: one file per paper or law, pure numpy, no capture, no simulator.

`ALL` is the table of models. A new one is a file here and a row in it.
"""

from tcptrace_lab.models.compound import Compound
from tcptrace_lab.models.initial_window import InitialWindow
from tcptrace_lab.models.m_start import MStart
from tcptrace_lab.models.prediction import Applicability, Model, Parameter, Prediction, Quantity, Reason, TogetherModel
from tcptrace_lab.models.several_nodes import SeveralNodes
from tcptrace_lab.models.several_nodes_packets import SeveralNodesPackets
from tcptrace_lab.models.small_buffers import SmallBuffers
from tcptrace_lab.models.small_buffers_packets import SmallBuffersPackets
from tcptrace_lab.models.textbook.cubic_response import CubicResponse
from tcptrace_lab.models.textbook.mathis import Mathis
from tcptrace_lab.models.textbook.pftk import Pftk

ALL: tuple[Model, ...] = (
    SmallBuffers(),
    SmallBuffersPackets(),
    InitialWindow(),
    SeveralNodes(),
    SeveralNodesPackets(),
    MStart(),
    Compound(),
    Mathis(),
    Pftk(),
    CubicResponse(),
)

__all__ = ["ALL", "Applicability", "Model", "Parameter", "Prediction", "Quantity", "Reason", "TogetherModel"]
