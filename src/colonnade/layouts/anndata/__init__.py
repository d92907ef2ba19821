"""The data frames of AnnData (encoding-type "dataframe", 0.2.0 and 0.1.0) as tables."""
