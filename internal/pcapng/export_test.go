package pcapng

// CommentWords are the words of the comments that the encoder writes to packets. They are for a
// test that reads the project's texts by package testfile, which imports this one.
var CommentWords = append(outletWords[:], setBackWord, setBackEnd, weightWord, gsoWord, runWord, runEnd)
