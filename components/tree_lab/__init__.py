"""The tab "Tree lab": the optimal tree as it grows, beside other trees and the bounds."""
