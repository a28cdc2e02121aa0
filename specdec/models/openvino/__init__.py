"""openvino-genai beside us: what the bench races against and the referee audits, where it is installed.

conversion  a decoder of transformers as OpenVINO's graph, keys and values its state
pipeline    openvino-genai on converted models, plainly and with a draft
"""

from specdec.models.openvino.conversion import convert, convert_pair
from specdec.models.openvino.pipeline import BACKENDS, PRECISIONS, Pipeline

__all__ = ["BACKENDS", "PRECISIONS", "Pipeline", "convert", "convert_pair"]
