"""net.plist, the input of Apple's ANECompiler: a property list of units with raw weight files beside it."""

from openane.importers.netplist.load import load_netplist
from openane.importers.netplist.write import to_netplist, write_netplist

__all__ = ["load_netplist", "to_netplist", "write_netplist"]
