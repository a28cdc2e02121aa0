"""One thread for all tests: two of them on two busy cores can be ten times slower."""

import torch

torch.set_num_threads(1)
