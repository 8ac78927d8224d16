"""torch_geometric's layers, to compare ours with. While it is imported it scripts functions, of which torch warns."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GATConv, GATv2Conv, GCNConv
    from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock, MultiheadAttentionBlock

__all__ = ["GATConv", "GATv2Conv", "GCNConv", "InducedSetAttentionBlock", "MultiheadAttentionBlock"]
