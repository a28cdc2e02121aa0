"""A draft model whose tokenizer differs from the target's, made to score the target's token ids.

strings     the string of each token, and the tokens that two tokenizers share
contexts    a text of target tokens in the draft's own tokenization, which grows with the text
model       `OtherTokenizerModel`: a `Model` over the target's ids, on a draft model
"""

from specdec.models.other_tokenizer.model import OtherTokenizerModel, OtherTokenizerSession

__all__ = ["OtherTokenizerModel", "OtherTokenizerSession"]
