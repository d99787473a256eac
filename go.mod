module footfall

go 1.26
