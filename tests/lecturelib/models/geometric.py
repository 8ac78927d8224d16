"""torch_geometric's layers, to compare ours with. While it is imported it scripts functions, of which torch warns."""

import warnings

import pytest

# Its layers evaluate annotations when they are made, in a way that typing warns of since Python 3.13.
may_evaluate_annotations = pytest.mark.filterwarnings("ignore:Failing to pass a value to the 'type_params'")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GATConv, GATv2Conv, GCNConv
    from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock, MultiheadAttentionBlock

__all__ = [
    "GATConv",
    "GATv2Conv",
    "GCNConv",
    "InducedSetAttentionBlock",
    "MultiheadAttentionBlock",
    "may_evaluate_annotations",
]
