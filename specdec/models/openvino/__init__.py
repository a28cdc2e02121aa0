"""openvino-genai, where it is installed: the audit examines it.

conversion  a decoder of transformers as OpenVINO's graph, keys and values its state
pipeline    openvino-genai on converted models, plainly and with a draft
"""

from specdec.models.openvino.conversion import convert, convert_pair
from specdec.models.openvino.pipeline import Pipeline

__all__ = ["Pipeline", "convert", "convert_pair"]
