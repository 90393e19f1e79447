package testfile

import "reflect"

// Number gives each exported field of a struct of numbers another value. The values of a second
// struct differ from those of the first in every field.
func Number(structure any, second bool) {
	v := reflect.ValueOf(structure).Elem()
	for i := range v.NumField() {
		n := uint64(1000 + 10*i)
		if second {
			n++
		}
		switch field := v.Field(i); {
		case !v.Type().Field(i).IsExported():
		case field.CanInt():
			field.SetInt(int64(n))
		default:
			field.SetUint(n)
		}
	}
}
