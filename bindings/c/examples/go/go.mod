module numbers

go 1.21
